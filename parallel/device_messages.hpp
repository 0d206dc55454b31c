#pragma once

#include "parallel/communicator.hpp"

namespace tessera {

/// Communication of buffers in device memory, whichever memory the communicator takes: where it takes host
/// memory only and that of the device is another, data go through a host copy. Contracts are those of the
/// Communicator's operations.
Request device_send(Communicator& comm, const void* data, Index count, DType type, int to, int tag);
Request device_receive(Communicator& comm, void* data, Index count, DType type, int from, int tag);
Request device_all_reduce(Communicator& comm, void* data, Index count, DType type, ReduceOp op);
void device_broadcast(Communicator& comm, void* data, Index count, DType type, int root);
void device_all_gather(Communicator& comm, const void* from, void* to, std::span<const Index> counts,
                       DType type);
void device_reduce_scatter(Communicator& comm, const void* from, void* to, std::span<const Index> counts,
                           DType type, ReduceOp op);
void device_all_to_all(Communicator& comm, const void* from, std::span<const Index> send_counts, void* to,
                       std::span<const Index> receive_counts, DType type);

}  // namespace tessera
