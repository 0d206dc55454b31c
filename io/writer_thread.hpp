#pragma once

#include <functional>
#include <memory>

#include "parallel/communicator.hpp"

namespace tessera {

/// Runs jobs that write files on a thread of its own, one after the other in the order of submission, while
/// the caller computes. All ranks of `group` submit the same jobs in the same order; each begins once all
/// ranks have come to it and may be collective over comm(), a group of the thread's own: its messages cannot
/// meet those of the solver. A process must not have two of them with collective jobs, nor call HDF5
/// collectively beside one: HDF5 runs one call at a time, and two ranks could wait in different ones.
///
/// An error in a job on any rank ends the work on all: later jobs are dropped, and the next submit() or
/// drain() throws it. Ranks may meet it at different ones, so call them within run_together(); drain() in one
/// of its own, once it is agreed that all ranks have submitted what they should: it waits for ranks that have
/// not. A thread that is given up while an exception unwinds the stack drops what waits; if the job that runs
/// does not end within seconds, because other ranks do not take part any more, it is left behind and
/// hdf5::files_abandoned() becomes true.
class WriterThread {
 public:
  /// Collective. At most `waiting` jobs wait behind the one that runs.
  explicit WriterThread(const CommPtr& group, std::size_t waiting = 1);
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  const CommPtr& comm() const { return comm_; }
  /// Waits for a place in the queue.
  void submit(std::function<void()> job);
  /// Returns when all jobs are done.
  void drain();
  /// Before what jobs refer to is destroyed: returns when none runs or waits any more, without throwing.
  /// While an exception unwinds the stack, false if the running one had to be left behind: what it refers to
  /// must live on.
  bool settle() noexcept;

 private:
  struct State;
  CommPtr comm_;
  std::shared_ptr<State> state_;
};

}  // namespace tessera
