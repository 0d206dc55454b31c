#pragma once

#include <span>

#include "parallel/communicator.hpp"

// Internal to parallel/: the arithmetic of reductions over ranks, on host memory.
namespace tessera {

/// to[i] = op over ranks of from[rank][i], in rank order, so that the result does not depend on arrival. Sums
/// of f32 and bf16 run in float. `to` may be one of the inputs. `avg` divides by `divisor`.
void reduce_blocks(std::span<const void* const> from, void* to, Index count, DType type, ReduceOp op,
                   Index divisor);

/// data[i] /= divisor, rounded towards zero for integers.
void divide_block(void* data, Index count, DType type, Index divisor);

}  // namespace tessera
