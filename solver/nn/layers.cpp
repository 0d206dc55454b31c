#include "solver/nn/layers.hpp"

#include <cmath>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/linear/linear.hpp"
#include "solver/ops/norm/norm.hpp"

namespace tessera {
namespace {

Init default_init(Index fan_in) {
  return Init::uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
}

Shape weight_shape(Index first, Index second, const Shape& kernel) {
  Shape shape{first, second};
  for (Index k : kernel) shape.push_back(k);
  return shape;
}

}  // namespace

Linear::Linear(Index in, Index out, DType type)
    : weight_(parameter("weight", {out, in}, default_init(in), type)),
      bias_(parameter("bias", {out}, default_init(in), type)) {}

Tensor Linear::operator()(const Tensor& x) const {
  return linear(x, weight_, bias_);
}

Conv::Conv(Index in, Index out, const Shape& kernel, ConvOptions options, DType type)
    : options_(std::move(options)) {
  const Index fan_in = in / options_.groups * count(kernel);
  weight_ = parameter("weight", weight_shape(out, in / options_.groups, kernel), default_init(fan_in), type);
  bias_ = parameter("bias", {out}, default_init(fan_in), type);
}

Tensor Conv::operator()(const Tensor& x) const {
  return conv(x, weight_, bias_, options_);
}

ConvTranspose::ConvTranspose(Index in, Index out, const Shape& kernel, ConvTransposeOptions options,
                             DType type)
    : options_(std::move(options)) {
  // PyTorch takes the fan-in of a transposed weight (in, out / groups, *kernel) from its second dimension.
  const Index fan_in = out / options_.groups * count(kernel);
  weight_ = parameter("weight", weight_shape(in, out / options_.groups, kernel), default_init(fan_in), type);
  bias_ = parameter("bias", {out}, default_init(fan_in), type);
}

Tensor ConvTranspose::operator()(const Tensor& x) const {
  return conv_transpose(x, weight_, bias_, options_);
}

LayerNorm::LayerNorm(Index features, DType type)
    : weight_(parameter("weight", {features}, Init::constant(1), type)),
      bias_(parameter("bias", {features}, Init::constant(0), type)) {}

Tensor LayerNorm::operator()(const Tensor& x) const {
  return layer_norm(x, weight_.shape(), weight_, bias_);
}

GroupNorm::GroupNorm(Index groups, Index channels, DType type)
    : groups_(groups),
      weight_(parameter("weight", {channels}, Init::constant(1), type)),
      bias_(parameter("bias", {channels}, Init::constant(0), type)) {}

Tensor GroupNorm::operator()(const Tensor& x) const {
  return group_norm(x, groups_, weight_, bias_);
}

Tensor GroupNorm::gelu(const Tensor& x, const Tensor& residual) const {
  return group_norm_gelu(x, groups_, weight_, bias_, residual);
}

Mlp::Mlp(Index features, Index hidden, DType type)
    : fc1_(module("fc1", std::make_shared<Linear>(features, hidden, type))),
      fc2_(module("fc2", std::make_shared<Linear>(hidden, features, type))) {}

Tensor Mlp::operator()(const Tensor& x) const {
  return (*fc2_)(gelu((*fc1_)(x)));
}

}  // namespace tessera
