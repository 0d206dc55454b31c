#pragma once

#include "solver/nn/module.hpp"
#include "solver/ops/conv/conv.hpp"

namespace tessera {

// Layers with PyTorch's parameter names, shapes and default initialisation: weights and biases of linear and
// convolution layers from uniform(-b, b) with b = 1 / sqrt(fan in); norms start at 1 and 0.

class Linear : public Module {
 public:
  Linear(Index in, Index out, DType type = DType::f32);
  Tensor operator()(const Tensor& x) const;

 private:
  Tensor weight_, bias_;
};

/// x (B, *grid, in) -> (B, *grid', out).
class Conv : public Module {
 public:
  Conv(Index in, Index out, const Shape& kernel, ConvOptions options = {}, DType type = DType::f32);
  Tensor operator()(const Tensor& x) const;

 private:
  ConvOptions options_;
  Tensor weight_, bias_;
};

class ConvTranspose : public Module {
 public:
  ConvTranspose(Index in, Index out, const Shape& kernel, ConvTransposeOptions options = {},
                DType type = DType::f32);
  Tensor operator()(const Tensor& x) const;

 private:
  ConvTransposeOptions options_;
  Tensor weight_, bias_;
};

class LayerNorm : public Module {
 public:
  explicit LayerNorm(Index features, DType type = DType::f32);
  Tensor operator()(const Tensor& x) const;

 private:
  Tensor weight_, bias_;
};

class GroupNorm : public Module {
 public:
  GroupNorm(Index groups, Index channels, DType type = DType::f32);
  Tensor operator()(const Tensor& x) const;
  /// gelu of the normalised x, plus `residual` if it is defined.
  Tensor gelu(const Tensor& x, const Tensor& residual = {}) const;

 private:
  Index groups_;
  Tensor weight_, bias_;
};

/// fc2(gelu(fc1(x))).
class Mlp : public Module {
 public:
  Mlp(Index features, Index hidden, DType type = DType::f32);
  Tensor operator()(const Tensor& x) const;

 private:
  std::shared_ptr<Linear> fc1_, fc2_;
};

}  // namespace tessera
