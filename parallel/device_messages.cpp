#include "parallel/device_messages.hpp"

#include <numeric>

#include <Kokkos_Core.hpp>

namespace tessera {
namespace {

/// True if the communicator can read and write device memory itself.
bool is_direct(const Communicator& comm) {
  return comm.space() == MemorySpace::device || host_accessible(MemorySpace::device);
}

void to_device(void* to, const MemoryBlock& from) {
  copy_bytes(to, MemorySpace::device, from.data(), MemorySpace::host, from.bytes());
}

/// An operation on a host copy, which is kept until completion and then, if `target` is given, copied there.
class Staged : public Request::State {
 public:
  Staged(MemoryBlock copy, void* target, Request request)
      : copy_(std::move(copy)), target_(target), request_(std::move(request)) {}

  bool test() override {
    if (!done_ && request_.test()) complete();
    return done_;
  }
  void wait() override {
    if (done_) return;
    request_.wait();
    complete();
  }

 private:
  void complete() {
    if (target_) to_device(target_, copy_);
    copy_ = MemoryBlock();
    done_ = true;
  }

  MemoryBlock copy_;
  void* target_;
  Request request_;
  bool done_ = false;
};

MemoryBlock host_block(Index count, DType type) {
  return MemoryBlock(MemorySpace::host, static_cast<std::size_t>(count) * size_of(type));
}

MemoryBlock host_copy(const void* data, Index count, DType type) {
  MemoryBlock copy = host_block(count, type);
  copy_bytes(copy.data(), MemorySpace::host, data, MemorySpace::device, copy.bytes());
  return copy;
}

Index sum(std::span<const Index> counts) {
  return std::accumulate(counts.begin(), counts.end(), Index{0});
}

}  // namespace

Request device_send(Communicator& comm, const void* data, Index count, DType type, int to, int tag) {
  if (is_direct(comm)) {
    Kokkos::fence();
    return comm.start_send(data, count, type, to, tag);
  }
  const MemoryBlock copy = host_copy(data, count, type);
  return Request(std::make_shared<Staged>(copy, nullptr, comm.start_send(copy.data(), count, type, to, tag)));
}

Request device_receive(Communicator& comm, void* data, Index count, DType type, int from, int tag) {
  if (is_direct(comm)) {
    Kokkos::fence();
    return comm.start_receive(data, count, type, from, tag);
  }
  const MemoryBlock copy = host_block(count, type);
  return Request(
      std::make_shared<Staged>(copy, data, comm.start_receive(copy.data(), count, type, from, tag)));
}

Request device_all_reduce(Communicator& comm, void* data, Index count, DType type, ReduceOp op) {
  if (is_direct(comm)) {
    Kokkos::fence();
    return comm.start_all_reduce(data, count, type, op);
  }
  const MemoryBlock copy = host_copy(data, count, type);
  return Request(std::make_shared<Staged>(copy, data, comm.start_all_reduce(copy.data(), count, type, op)));
}

void device_broadcast(Communicator& comm, void* data, Index count, DType type, int root) {
  if (is_direct(comm)) {
    Kokkos::fence();
    return comm.broadcast(data, count, type, root);
  }
  const MemoryBlock copy = host_copy(data, count, type);
  comm.broadcast(copy.data(), count, type, root);
  to_device(data, copy);
}

void device_all_gather(Communicator& comm, const void* from, void* to, std::span<const Index> counts,
                       DType type) {
  if (is_direct(comm)) {
    Kokkos::fence();
    return comm.all_gather(from, to, counts, type);
  }
  const MemoryBlock own = host_copy(from, counts[static_cast<std::size_t>(comm.rank())], type);
  const MemoryBlock all = host_block(sum(counts), type);
  comm.all_gather(own.data(), all.data(), counts, type);
  to_device(to, all);
}

void device_reduce_scatter(Communicator& comm, const void* from, void* to, std::span<const Index> counts,
                           DType type, ReduceOp op) {
  if (is_direct(comm)) {
    Kokkos::fence();
    return comm.reduce_scatter(from, to, counts, type, op);
  }
  const MemoryBlock all = host_copy(from, sum(counts), type);
  const MemoryBlock own = host_block(counts[static_cast<std::size_t>(comm.rank())], type);
  comm.reduce_scatter(all.data(), own.data(), counts, type, op);
  to_device(to, own);
}

void device_all_to_all(Communicator& comm, const void* from, std::span<const Index> send_counts, void* to,
                       std::span<const Index> receive_counts, DType type) {
  if (is_direct(comm)) {
    Kokkos::fence();
    return comm.all_to_all(from, send_counts, to, receive_counts, type);
  }
  const MemoryBlock sent = host_copy(from, sum(send_counts), type);
  const MemoryBlock received = host_block(sum(receive_counts), type);
  comm.all_to_all(sent.data(), send_counts, received.data(), receive_counts, type);
  to_device(to, received);
}

}  // namespace tessera
