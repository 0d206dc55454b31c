#pragma once

#include "parallel/communicator.hpp"

namespace tessera {

/// Communication of buffers in device memory, whichever memory the communicator takes: where it takes host
/// memory only and that of the device is another, data go through a host copy. Contracts are those of the
/// Communicator's operations.
Request device_send(Communicator& comm, const void* data, Index count, DType type, int to, int tag);
Request device_receive(Communicator& comm, void* data, Index count, DType type, int from, int tag);
Request device_all_reduce(Communicator& comm, void* data, Index count, DType type, ReduceOp op);

}  // namespace tessera
