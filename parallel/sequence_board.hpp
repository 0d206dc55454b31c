#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <mpi.h>

// Internal to the MPI backend.
namespace tessera {

/// Tells a rank that waits in vain who has not arrived. Each rank keeps, in memory that others can read
/// without its help, the sequence number of the last collective it entered on each of its communicators (one
/// slot per communicator).
///
/// Where the MPI library cannot provide such memory, `available()` is false and nothing is known.
class SequenceBoard {
 public:
  explicit SequenceBoard(MPI_Comm world);  ///< collective
  SequenceBoard(const SequenceBoard&) = delete;
  SequenceBoard& operator=(const SequenceBoard&) = delete;
  ~SequenceBoard() = default;  // the window is freed by close(), which is collective

  bool available() const { return window_ != MPI_WIN_NULL; }
  /// Collective; before MPI_Finalize.
  void close();

  /// A slot of this rank, or -1 if all are taken.
  int claim();
  void release(int slot);
  void store(int slot, std::int64_t sequence);
  /// The number in a slot of another rank, or nothing if it cannot be read within a second.
  std::optional<std::int64_t> read(int world_rank, int slot) const;

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::int64_t* memory_ = nullptr;
  std::mutex mutex_;  // guards free_
  std::vector<int> free_;
  mutable std::vector<std::shared_ptr<std::int64_t>> unanswered_;  // targets of reads that were given up
};

}  // namespace tessera
