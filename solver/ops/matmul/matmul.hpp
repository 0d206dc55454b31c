#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// (..., m, k) (..., k, n) -> (..., m, n), batch dimensions broadcast against each other. An operand of one
/// dimension is a row (left) or column (right) that the result lacks. torch.matmul.
///
/// On each mesh axis one of these holds, chosen after the larger operand if that is sharded there, else after
/// the other one:
///   a sharded on m, or b on n      -> the result likewise; the other operand whole on the axis
///   either sharded on k            -> both cut alike along k; the result is Partial(sum)
///   either sharded on a batch dim  -> both cut alike along it, and the result
/// Operands with other placements or cut points are redistributed (differentiably). Throws (usage) where
/// shapes do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace tessera
