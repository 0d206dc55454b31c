#pragma once

#include <functional>

#include "parallel/exchange_plan.hpp"
#include "solver/tensor/tensor.hpp"

// Internal to operators.
namespace tessera {

/// Where the elements of an axis of the result come from, for a range of its indices.
using AxisSource = std::function<AxisMap(Range)>;

/// The dimension, counted from the start; throws (usage) naming `op`.
int checked_dim(const Tensor& x, int dim, const char* op);

/// A tensor whose elements along some dimensions come from elsewhere in x: moved by an exchange plan, by its
/// adjoint in the backward pass. `layout` (none for plain x) and `shape` are those of the result; x has no
/// Partial axis, and the mesh axes on which it is replicated are replicated in `layout`, too. `from[d]`
/// empty: dimension d stays.
Tensor rearrange(const char* op, const Tensor& x, const Layout& layout, const Shape& shape,
                 std::span<const AxisSource> from);

}  // namespace tessera
