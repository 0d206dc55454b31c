#pragma once

#include <memory>
#include <string>

#include "parallel/axis_map.hpp"
#include "solver/nn/module.hpp"

namespace tessera {

enum class Architecture : std::uint8_t { vit, convnet, natten };
enum class Head : std::uint8_t { field, classification };

/// What a model is. Grids of any extent work with any patch: the input is widened at its high end to whole
/// patches under the axis's padding policy, and a predicted field is cropped again.
struct ModelConfig {
  Architecture architecture = Architecture::vit;
  Shape grid;   ///< 1 to 3 extents
  Shape patch;  ///< one per axis
  Index in_channels = 1;
  Index out_channels = 1;  ///< of a field head
  Index dim = 64;          ///< width
  Index depth = 4;         ///< blocks
  Index heads = 4;         ///< vit, natten; divides dim
  double mlp_ratio = 4;    ///< vit, natten
  Index kernel_size = 7;   ///< natten: window; odd
  Index stem_kernel = 0;   ///< convnet: width of the first kernel; 0: the patch
  Index norm_groups = 8;   ///< convnet; divides dim
  Head head = Head::field;
  Index num_classes = 10;           ///< of a classification head
  InlineVector<Boundary> boundary;  ///< per axis, what convolutions read beyond the grid; default zero
  InlineVector<Boundary>
      padding;                 ///< per axis, how a grid is widened to whole patches; default replicate (edge)
  bool recompute = false;      ///< recompute the activations of each block in the backward pass
  DType type = DType::f32;     ///< of the parameters, their gradients, the input and the output
  bool bf16_products = false;  ///< activations and products in bf16, sums in f32

  /// Tokens (or cells of the convnet's blocks) per axis: the grid in whole patches.
  Shape tokens() const;
  /// Throws (usage) naming the key that does not fit.
  void validate() const;
};

/// Maps a field (B, *grid, in_channels) to a field (B, *grid, out_channels) or to logits (B, num_classes), in
/// the type of the input.
class Model : public Module {
 public:
  explicit Model(ModelConfig config) : config_(std::move(config)) {}
  const ModelConfig& config() const { return config_; }
  /// Whether backward passes recompute the activations of each block.
  void set_recompute(bool recompute) { config_.recompute = recompute; }
  Tensor operator()(const Tensor& x) const;

 protected:
  virtual Tensor forward(const Tensor& x) const = 0;
  /// Widens the grid to whole patches.
  Tensor pad_to_patches(const Tensor& x) const;
  /// Cuts a field back to the grid, in the layout of `like`'s grid where cut points moved.
  Tensor crop_to_grid(const Tensor& y, const Tensor& like) const;
  /// Runs one block, recomputing it in the backward pass if the configuration says so.
  Tensor run_block(const std::function<Tensor(const Tensor&)>& block, const Tensor& x) const;

 private:
  ModelConfig config_;
};

/// The model of a configuration, parameters drawn from `seed`.
std::shared_ptr<Model> make_model(const ModelConfig& config, std::uint64_t seed = 0);

}  // namespace tessera
