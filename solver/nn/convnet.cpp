#include "solver/nn/convnet.hpp"

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

std::shared_ptr<Conv> three_wide(const ModelConfig& c) {
  ConvOptions options;
  options.padding_lo = options.padding_hi = Shape::filled(c.grid.size(), 1);
  options.boundary = c.boundary;
  return std::make_shared<Conv>(c.dim, c.dim, Shape::filled(c.grid.size(), 3), options, c.type);
}

std::shared_ptr<Conv> stem(const ModelConfig& c) {
  Shape kernel = c.patch, padding;
  for (int d = 0; d < c.grid.size(); ++d) {
    if (c.stem_kernel > 0) kernel[d] = c.stem_kernel;
    padding.push_back((kernel[d] - c.patch[d]) / 2);
  }
  ConvOptions options;
  options.stride = c.patch;
  options.padding_lo = options.padding_hi = padding;
  options.boundary = c.boundary;
  return std::make_shared<Conv>(c.in_channels, c.dim, kernel, options, c.type);
}

}  // namespace

ResidualBlock::ResidualBlock(const ModelConfig& c)
    : conv1_(module("conv1", three_wide(c))),
      conv2_(module("conv2", three_wide(c))),
      norm1_(module("norm1", std::make_shared<GroupNorm>(c.norm_groups, c.dim, c.type))),
      norm2_(module("norm2", std::make_shared<GroupNorm>(c.norm_groups, c.dim, c.type))) {}

Tensor ResidualBlock::operator()(const Tensor& x) const {
  const Tensor inner = norm1_->gelu((*conv1_)(x));
  return norm2_->gelu((*conv2_)(inner), x);
}

ConvNet::ConvNet(const ModelConfig& c) : Model(c), stem_(module("patch_embed", stem(c))) {
  for (Index i = 0; i < c.depth; ++i) {
    blocks_.push_back(module("stages." + std::to_string(i), std::make_shared<ResidualBlock>(c)));
  }
  if (c.head == Head::field) {
    ConvTransposeOptions options;
    options.stride = c.patch;
    field_head_ =
        module("head", std::make_shared<ConvTranspose>(c.dim, c.out_channels, c.patch, options, c.type));
  } else {
    class_head_ = module("head", std::make_shared<Linear>(c.dim, c.num_classes, c.type));
  }
}

Tensor ConvNet::forward(const Tensor& x) const {
  Tensor y = (*stem_)(pad_to_patches(x));  // (B, *cells, dim)
  for (const auto& block : blocks_) {
    y = run_block([block](const Tensor& t) { return (*block)(t); }, y);
  }
  if (field_head_) return crop_to_grid((*field_head_)(y), x);
  std::vector<int> grid;
  for (int d = 1; d + 1 < y.ndim(); ++d) grid.push_back(d);
  return (*class_head_)(reduce_partial(mean(y, grid)));
}

}  // namespace tessera
