#include "parallel/gather_messages.hpp"

#include <algorithm>

namespace tessera {
namespace {

constexpr int kTag = 1000005;

}  // namespace

void gather_messages(Communicator& comm, const void* mine, void* all, Index count, DType type) {
  const int ranks = comm.size(), me = comm.rank();
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
  // Block i of the buffer belongs to rank (me + i) mod ranks.
  const MemoryBlock buffer(comm.space(), bytes * static_cast<std::size_t>(ranks));
  const auto block = [&](const void* base, int i) {
    return static_cast<char*>(const_cast<void*>(base)) + bytes * static_cast<std::size_t>(i);
  };
  copy_bytes(buffer.data(), comm.space(), mine, comm.space(), bytes);
  for (int held = 1; count > 0 && held < ranks; held *= 2) {
    const int more = std::min(held, ranks - held);
    Request arrival =
        comm.start_receive(block(buffer.data(), held), more * count, type, (me + held) % ranks, kTag);
    comm.send(buffer.data(), more * count, type, (me + ranks - held) % ranks, kTag);
    arrival.wait();
  }
  copy_bytes(block(all, me), comm.space(), buffer.data(), comm.space(),
             bytes * static_cast<std::size_t>(ranks - me));
  copy_bytes(all, comm.space(), block(buffer.data(), ranks - me), comm.space(),
             bytes * static_cast<std::size_t>(me));
}

}  // namespace tessera
