#include "parallel/device_messages.hpp"

#include <Kokkos_Core.hpp>

namespace tessera {
namespace {

/// True if the communicator can read and write device memory itself.
bool is_direct(const Communicator& comm) {
  return comm.space() == MemorySpace::device || host_accessible(MemorySpace::device);
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
    if (target_) copy_bytes(target_, MemorySpace::device, copy_.data(), MemorySpace::host, copy_.bytes());
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

}  // namespace tessera
