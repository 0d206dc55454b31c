#pragma once

#include <span>
#include <vector>

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// The same elements under another global shape. A sharded dimension stays sharded where it is the leading
/// one of the dimensions it merges with or splits into, its cut points moved to whole rows first if need be;
/// otherwise it is replicated (counted as communication).
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor unsqueeze(const Tensor& x, int dim);
/// Removes a dimension of size 1.
Tensor squeeze(const Tensor& x, int dim);

/// y[i_dims[0], i_dims[1], ...] = x[i_0, i_1, ...]: dimension d of y is dimension dims[d] of x.
Tensor permute(const Tensor& x, std::span<const int> dims);

/// Elements start, start + step, ... < stop of one dimension (step >= 1). Local: each rank keeps what it
/// owns.
Tensor slice(const Tensor& x, int dim, Index start, Index stop, Index step = 1);
/// One index of a dimension (negative counts from the end), which is removed.
Tensor select(const Tensor& x, int dim, Index index);
/// Consecutive pieces of these sizes along a dimension.
std::vector<Tensor> split(const Tensor& x, int dim, std::span<const Index> sizes);
/// Every index of a dimension, which is removed.
std::vector<Tensor> unbind(const Tensor& x, int dim);
/// Joins along a dimension. Other dimensions take the cut points of the first shard tensor. A joined
/// dimension that is cut stays so: part p ends where the ends of the operands' parts p add up to (an operand
/// that is whole there is cut in proportion), and rows travel to where they belong in one exchange per
/// operand.
Tensor cat(std::span<const Tensor> tensors, int dim);

/// y[i + shift] = x[i] along a dimension, what leaves at one end entering at the other. Cut points stay.
Tensor roll(const Tensor& x, int dim, Index shift);
/// Reverses the order along dimensions. Cut points stay.
Tensor flip(const Tensor& x, std::span<const int> dims);

/// y[.., k, ..] = x[.., index[k], ..] along a dimension; index (K) i64, the same on all ranks. A cut
/// dimension is cut evenly afterwards; rows travel in one exchange. Throws (usage) for an index outside.
Tensor index_select(const Tensor& x, int dim, const Tensor& index);
/// y[i, j, k] = x[index[i, j, k], j, k] (for dim 0); index i64, no larger than x along the other dimensions.
/// y is laid out as x along the dimensions in which index is as large, whole along the others; where x is cut
/// along `dim`, every rank looks up what it owns and y is Partial(sum). torch.gather.
Tensor gather(const Tensor& x, int dim, const Tensor& index);

/// Running sums along a dimension. Along a cut one the ranks exchange the sums of their parts.
Tensor cumsum(const Tensor& x, int dim);

}  // namespace tessera
