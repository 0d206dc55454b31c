#pragma once

#include "parallel/dtype.hpp"
#include "parallel/inline_vector.hpp"

// Internal to parallel/: kernels that move boxes between strided buffers in device memory.
namespace tessera {

/// A box of elements and where each lies in two buffers: element (i0, i1, ...) at from + sum i_d *
/// from_stride[d] in the one and at to + sum i_d * to_stride[d] in the other. Strides may be negative, or 0
/// where one element stands for many.
struct StridedBlock {
  int dims = 0;
  Index count[kMaxDims] = {};
  Index from_stride[kMaxDims] = {};
  Index to_stride[kMaxDims] = {};
  Index from = 0;
  Index to = 0;

  Index volume() const;
  void push_back(Index elements, Index from_step, Index to_step);
};

/// The same movement in as few dimensions as possible: dimensions of one element are dropped and those that
/// follow each other evenly in both buffers are merged, so that the innermost is a long row.
StridedBlock simplify(const StridedBlock& block);
/// The movement in the other direction.
StridedBlock reversed(const StridedBlock& block);
/// True if it copies one dense run of elements.
bool is_dense(const StridedBlock& simplified);

/// to[...] = from[...]. The block is a simplified one; the to-strides are not 0.
void copy_block(const StridedBlock& block, const void* from, void* to, std::size_t element_size);
/// to[...] += from[...], where many elements may meet in one (to-stride 0): they are added in row-major
/// order.
void add_block(const StridedBlock& block, const void* from, void* to, DType type);

}  // namespace tessera
