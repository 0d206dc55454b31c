#include "solver/nn/model.hpp"

#include "solver/nn/convnet.hpp"
#include "solver/nn/transformer.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/pad/pad.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {

Shape ModelConfig::tokens() const {
  Shape result;
  for (int d = 0; d < grid.size(); ++d) result.push_back((grid[d] + patch[d] - 1) / patch[d]);
  return result;
}

void ModelConfig::validate() const {
  auto check = [](bool ok, const char* key, const std::string& text) {
    if (!ok) fail(ExitCode::usage, std::string("model.") + key, "{}", text);
  };
  check(grid.size() >= 1 && grid.size() <= 3, "grid",
        fmt::format("found {} axes, expected 1 to 3", grid.size()));
  check(patch.size() == grid.size(), "patch",
        fmt::format("found {} extents, expected {}", patch.size(), grid.size()));
  for (Index extent : grid)
    check(extent >= 1, "grid", fmt::format("found extent {}, expected at least 1", extent));
  for (Index p : patch) check(p >= 1, "patch", fmt::format("found {}, expected at least 1", p));
  check(dim >= 1 && depth >= 0, "dim", "width must be at least 1 and depth at least 0");
  check(!bf16_products || type == DType::f32, "precision", "bf16 goes with parameters in f32");
  if (architecture == Architecture::convnet) {
    check(dim % norm_groups == 0, "dim",
          fmt::format("found {}, expected a multiple of norm_groups = {}", dim, norm_groups));
    for (Index p : patch) {
      check(stem_kernel == 0 || (stem_kernel >= p && (stem_kernel - p) % 2 == 0), "stem_kernel",
            fmt::format("found {}, expected 0 or the patch ({}) plus an even number", stem_kernel, p));
    }
    return;
  }
  check(heads >= 1 && dim % heads == 0, "heads",
        fmt::format("found {}, expected a divisor of dim = {}", heads, dim));
  if (architecture == Architecture::natten) {
    const Shape t = tokens();
    for (Index extent : t) {
      check(kernel_size % 2 == 1 && kernel_size <= extent, "kernel_size",
            fmt::format("found {}, expected an odd number up to the tokens per axis, {}", kernel_size,
                        to_string(t)));
    }
  }
}

Tensor Model::operator()(const Tensor& x) const {
  return cast(forward(config_.bf16_products ? cast(x, DType::bf16) : x), x.dtype());
}

Tensor Model::pad_to_patches(const Tensor& x) const {
  Tensor y = x;
  const Shape tokens = config_.tokens();
  for (int d = 0; d < tokens.size(); ++d) {
    const Index more = tokens[d] * config_.patch[d] - config_.grid[d];
    if (more == 0) continue;
    const Boundary policy = config_.padding.empty() ? Boundary::replicate : config_.padding[d];
    Shape lo = Shape::filled(x.ndim(), 0), hi = lo;
    hi[d + 1] = more;
    constexpr PadMode modes[] = {PadMode::constant, PadMode::periodic, PadMode::reflect, PadMode::replicate};
    y = pad(y, lo, hi, modes[static_cast<int>(policy)]);
  }
  return y;
}

Tensor Model::crop_to_grid(const Tensor& y, const Tensor& like) const {
  Tensor cropped = y;
  for (int d = 0; d < config_.grid.size(); ++d) {
    if (y.dim(d + 1) == config_.grid[d]) continue;
    Box box = Box::whole(y.shape());
    for (int i = 0; i < config_.grid.size(); ++i) box[i + 1] = {0, config_.grid[i]};
    cropped = crop(y, box);
    break;
  }
  if (!like.is_shard()) return cropped;
  Layout target = Layout::replicated(like.layout().mesh(), cropped.shape());
  for (int a = 0; a < target.mesh().axes(); ++a) {
    const Placement& p = like.layout().placement(a);
    if (p.is_shard() && p.dim < like.ndim() - 1)
      target = target.with_placement(a, p, like.layout().partition(a));
  }
  return redistribute(cropped, target);
}

Tensor Model::run_block(const std::function<Tensor(const Tensor&)>& block, const Tensor& x) const {
  if (!config_.recompute) return block(x);
  return checkpoint([block](std::span<const Tensor> inputs) { return block(inputs[0]); }, {&x, 1});
}

std::shared_ptr<Model> make_model(const ModelConfig& config, std::uint64_t seed) {
  config.validate();
  std::shared_ptr<Model> model;
  switch (config.architecture) {
    case Architecture::vit:
      model = std::make_shared<Vit>(config);
      break;
    case Architecture::natten:
      model = std::make_shared<Natten>(config);
      break;
    case Architecture::convnet:
      model = std::make_shared<ConvNet>(config);
      break;
  }
  model->initialise(seed);
  return model;
}

}  // namespace tessera
