#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "solver/train/sample.hpp"

namespace tessera {

/// A sample's target: step `step` of trajectory `trajectory`.
struct SampleId {
  Index trajectory = 0;
  Index step = 0;
  bool operator==(const SampleId&) const = default;
};

/// Reads samples on a thread of its own, one after the other in the order asked for, so that files are read
/// while the model computes. It is the only thread that touches the data files.
class ReaderThread {
 public:
  ReaderThread();
  ~ReaderThread();
  ReaderThread(const ReaderThread&) = delete;
  ReaderThread& operator=(const ReaderThread&) = delete;

  /// The sample's values, or the error that reading met. `maker` must outlive the future.
  std::future<SampleMaker::Values> submit(SampleMaker& maker, SampleId id);

 private:
  using Job = std::packaged_task<SampleMaker::Values()>;
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tessera
