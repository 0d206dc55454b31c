#pragma once

#include <span>

#include "solver/tensor/tensor.hpp"

namespace tessera {

// Reductions over the dimensions `dims` (negative counts from the end; empty: all). With `keepdim` they stay
// with size 1. The count is the GLOBAL one. Sums accumulate in double (f32, f64) or float (bf16), in a fixed
// order.

/// A sharded dimension in `dims` makes the result Partial(sum) on its mesh axis.
Tensor sum(const Tensor& x, std::span<const int> dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, std::span<const int> dims = {}, bool keepdim = false);
/// Extremes are reduced over the mesh at once. Equal extremes share the gradient evenly.
Tensor amax(const Tensor& x, std::span<const int> dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, std::span<const int> dims = {}, bool keepdim = false);
/// Two passes: mean((x - mean)^2), times n / (n - 1) if `unbiased`.
Tensor var(const Tensor& x, std::span<const int> dims = {}, bool keepdim = false, bool unbiased = true);

}  // namespace tessera
