#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/comm_stats.hpp"
#include "parallel/dtype.hpp"
#include "parallel/inline_vector.hpp"
#include "parallel/memory.hpp"

namespace tessera {

enum class ReduceOp : std::uint8_t { sum, avg, max, min };

/// Completion of an asynchronous operation. The buffers must live, untouched, until wait() returned or test()
/// was true.
class Request {
 public:
  struct State {
    virtual ~State() = default;
    virtual bool test() = 0;
    virtual void wait() = 0;
  };

  Request() = default;  ///< already complete
  explicit Request(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// True once the operation is complete; drives progress.
  bool test() { return !state_ || state_->test(); }
  /// Returns when complete; throws an Error (communication) after the communicator's timeout.
  void wait() {
    if (state_) state_->wait();
    state_.reset();
  }

 private:
  std::shared_ptr<State> state_;
};

/// A group of ranks that talk to each other. Every collective must be called by all ranks of the group in the
/// same order with matching counts. Ranks (roots, peers) are ranks of this group. Buffers are host memory
/// here; a device backend accepts device memory and says so through `space()`.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Name in error messages and statistics, for example "domain".
  virtual std::string_view name() const = 0;
  /// Rank in the world of a rank of this group.
  virtual int world_rank(int group_rank) const = 0;
  /// The memory whose buffers this backend takes.
  virtual MemorySpace space() const = 0;

  virtual Request start_send(const void* data, Index count, DType type, int to, int tag) = 0;
  virtual Request start_receive(void* data, Index count, DType type, int from, int tag) = 0;
  /// In place. `avg` divides by size(). The result is bitwise identical on all ranks.
  virtual Request start_all_reduce(void* data, Index count, DType type, ReduceOp op) = 0;

  virtual void broadcast(void* data, Index count, DType type, int root) = 0;
  /// `counts[r]` elements of each rank r, concatenated in rank order in `to`; `from` holds counts[rank()].
  virtual void all_gather(const void* from, void* to, std::span<const Index> counts, DType type) = 0;
  /// Sums (or ...) `from` over ranks; rank r gets the r-th block of `counts[r]` elements.
  virtual void reduce_scatter(const void* from, void* to, std::span<const Index> counts, DType type,
                              ReduceOp op) = 0;
  virtual void all_to_all(const void* from, std::span<const Index> send_counts, void* to,
                          std::span<const Index> receive_counts, DType type) = 0;
  virtual void barrier() = 0;

  /// New groups: ranks with equal `color` together, ordered by `key`. Collective over this group.
  virtual std::shared_ptr<Communicator> split(int color, int key, std::string name) = 0;

  /// A duplicate of the group for another library (parallel HDF5): a pointer to the backend's own handle
  /// (`MPI_Comm*`), valid as long as this communicator. Collective the first time. Throws where the backend
  /// has none.
  virtual void* native_handle() = 0;

  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;

  void all_reduce(void* data, Index count, DType type, ReduceOp op) {
    start_all_reduce(data, count, type, op).wait();
  }
  void send(const void* data, Index count, DType type, int to, int tag) {
    start_send(data, count, type, to, tag).wait();
  }
  void receive(void* data, Index count, DType type, int from, int tag) {
    start_receive(data, count, type, from, tag).wait();
  }
  /// Reduction of one host value.
  template <typename T>
  T all_reduce_value(T value, ReduceOp op) {
    all_reduce(&value, 1, dtype_of<T>, op);
    return value;
  }
  /// Every rank's value, in rank order.
  template <typename T>
  std::vector<T> all_gather_value(T value) {
    std::vector<T> all(static_cast<std::size_t>(size()));
    const std::vector<Index> counts(all.size(), 1);
    all_gather(&value, all.data(), counts, dtype_of<T>);
    return all;
  }
  /// Rank 0's text on every rank.
  std::string broadcast_text(std::string text, int root = 0);
};

using CommPtr = std::shared_ptr<Communicator>;

/// The communicator of one process, for tools and tests that run without a launcher.
CommPtr self_communicator();

}  // namespace tessera
