#pragma once

#include <string_view>

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// The common shape of two operands under NumPy's rules (aligned at the last dimension, size 1 stretches).
/// Throws naming `op`.
Shape broadcast_shape(const Shape& a, const Shape& b, std::string_view op);

/// Sums `grad` (laid out as a broadcast result) over the dimensions along which an operand of `shape` was
/// stretched. Axes that shard such a dimension become Partial(sum). The gradient itself where nothing was
/// stretched.
Tensor sum_to_operand(const Tensor& grad, const Shape& shape);

}  // namespace tessera
