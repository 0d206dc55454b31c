#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

// Scalars over all GLOBAL elements of `x` and `target`, which may have different layouts. Reduced over the
// mesh: every rank holds the value.

Tensor mse_loss(const Tensor& x, const Tensor& target);
Tensor l1_loss(const Tensor& x, const Tensor& target);
/// Mean over samples (dimension 0) of ||x - t||_2 / ||t||_2.
Tensor relative_l2_loss(const Tensor& x, const Tensor& target);
/// Mean over samples and channels (first and last dimension) of sqrt(MSE / (var(t) + 1e-7)), both over the
/// grid, the variance unbiased (The Well's VRMSE).
Tensor vrmse_loss(const Tensor& x, const Tensor& target);
/// Mean over rows of -log softmax(x)[target]; x (N, classes), target (N) of i64. Sharded
/// classes are gathered first.
Tensor cross_entropy(const Tensor& x, const Tensor& target);

}  // namespace tessera
