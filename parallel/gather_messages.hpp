#pragma once

#include "parallel/communicator.hpp"

namespace tessera {

/// Every rank's `count` elements on every rank, in rank order, by point-to-point messages: each rank sends
/// ceil(log2(ranks)) of them, which double in size (Bruck et al. 1997, "Efficient algorithms for all-to-all
/// communications"). For few numbers of which every rank needs all, and in the same order: statistics whose
/// merging must give the same bits everywhere. Buffers are in the memory that `comm` takes; `all` holds
/// size() * count elements.
void gather_messages(Communicator& comm, const void* mine, void* all, Index count, DType type);

}  // namespace tessera
