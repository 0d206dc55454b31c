#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

// Normalisations y = (x - mean) / sqrt(variance + eps) * weight + bias. They differ in the set of dimensions
// over which mean and (biased) variance are taken. Where a mesh axis cuts one of these, the ranks' (count,
// mean, M2) travel as point-to-point messages and are merged in rank order (Chan, Golub, LeVeque 1983), the
// same on every rank; so are the two sums of the backward pass. `weight` and `bias` may be undefined (1 and
// 0), and may be f32 beside bf16 activations. A Partial x is reduced first.

/// Over the trailing dimensions `normalized_shape`; weight and bias have that shape.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps = 1e-5);

/// x (B, *grid, C): per sample, over the grid and the C / groups channels of a group; weight and bias (C).
Tensor group_norm(const Tensor& x, Index groups, const Tensor& weight, const Tensor& bias, double eps = 1e-5);

/// gelu(group_norm(x) + residual) in one pass over the elements; nothing in between is kept for the backward
/// pass. `residual` has the shape and type of x, or is undefined (0).
Tensor group_norm_gelu(const Tensor& x, Index groups, const Tensor& weight, const Tensor& bias,
                       const Tensor& residual = {}, double eps = 1e-5);

/// x (B, *grid, C): per sample and channel, over the grid.
Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);

struct BatchNormOptions {
  bool training = true;   ///< use the statistics of x; else the running ones
  double momentum = 0.1;  ///< running = (1 - momentum) running + momentum * new
  double eps = 1e-5;
  CommPtr replicas = {};  ///< also merge over these ranks (the ddp axis); none if empty
};

/// x (B, *grid, C): per channel, over batch and grid. `running_mean`, `running_var` (C; plain, or both
/// undefined) are updated in place when training, the variance without bias, as torch.nn.BatchNorm does.
/// Throws (usage) when training on one value per channel.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, const BatchNormOptions& options = {});

}  // namespace tessera
