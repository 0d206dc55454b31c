#pragma once

#include "solver/nn/layers.hpp"
#include "solver/nn/model.hpp"

namespace tessera {

/// gelu(norm2(conv2(gelu(norm1(conv1(x))))) + x), 3-wide kernels.
class ResidualBlock : public Module {
 public:
  explicit ResidualBlock(const ModelConfig& config);
  Tensor operator()(const Tensor& x) const;

 private:
  std::shared_ptr<Conv> conv1_, conv2_;
  std::shared_ptr<GroupNorm> norm1_, norm2_;
};

/// Residual convolutional network: a stem that cuts the grid into patches, residual blocks, and a transposed
/// convolution back to the grid (field head), or a mean over the grid and a linear layer (classification
/// head).
class ConvNet : public Model {
 public:
  explicit ConvNet(const ModelConfig& config);

 private:
  Tensor forward(const Tensor& x) const override;
  std::shared_ptr<Conv> stem_;
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;
  std::shared_ptr<ConvTranspose> field_head_;
  std::shared_ptr<Linear> class_head_;
};

}  // namespace tessera
