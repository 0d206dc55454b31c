#pragma once

#include <string_view>
#include <utility>

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// The common shape of two operands under NumPy's rules (aligned at the last dimension, size 1 stretches).
/// Throws naming `op`.
Shape broadcast_shape(const Shape& a, const Shape& b, std::string_view op);

/// Two operands brought to layouts under which each rank's elements pair up, and the layout of the result.
struct Aligned {
  Tensor a, b;
  Shape shape;    ///< global shape of the result
  Layout layout;  ///< of the result; none if both operands are plain

  Tensor empty_result() const;
};

/// Per mesh axis the result is sharded like the larger operand if that is sharded there, else like the other
/// one; operands are redistributed (differentiably) where their cut points or placements differ from that.
/// Partial operands are reduced.
Aligned align_operands(const Tensor& a, const Tensor& b, std::string_view op);

/// Sums `grad` (laid out as a broadcast result) over the dimensions along which `operand` was stretched. Axes
/// that shard such a dimension become Partial(sum).
Tensor sum_to_operand(const Tensor& grad, const Tensor& operand);

}  // namespace tessera
