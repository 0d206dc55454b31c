#include "app/bench/models.hpp"

#include "app/bench/kinds.hpp"
#include "io/hint.hpp"

namespace tessera::bench {
namespace {

constexpr Index kChannels = 8;

ModelConfig transformer(Architecture architecture) {
  ModelConfig c;
  c.architecture = architecture;
  c.dim = 384;
  c.heads = 6;
  c.depth = 6;
  c.patch = {8};
  return c;
}

ModelConfig convnet(Index dim, Index depth, Index patch) {
  ModelConfig c;
  c.architecture = Architecture::convnet;
  c.dim = dim;
  c.depth = depth;
  c.patch = {patch};
  return c;
}

}  // namespace

std::span<const ModelPreset> models() {
  static const ModelPreset all[] = {
      {"vit", "384 wide, 6 heads, 6 blocks, patch 8", 256, 2, transformer(Architecture::vit)},
      {"natten", "the same with a window of 7 x 7 patches", 256, 2, transformer(Architecture::natten)},
      {"convnet", "96 wide, 8 blocks, stem 4", 512, 2, convnet(96, 8, 4)},
      {"convnet-3d", "32 wide, 4 blocks, at the grid's own resolution", 96, 3, convnet(32, 4, 1)},
  };
  return all;
}

const ModelPreset& find_model(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelPreset& model : models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : " | ") + known;
  fail(ExitCode::usage, "bench", "unknown model '{}': expected {}{}", name, list, nearest_hint(name, names));
}

ModelConfig ModelPreset::at(Index cells, DType type) const {
  ModelConfig c = config;
  c.grid = Shape::filled(axes, cells);
  c.patch = Shape::filled(axes, config.patch[0]);
  c.in_channels = c.out_channels = kChannels;
  if (type == DType::bf16)
    c.bf16_products = true;
  else
    c.type = type;
  c.validate();
  return c;
}

GridCuts cut_grid(const ModelConfig& config, int parts, bool uneven) {
  GridCuts cuts;
  for (int a = 0; a < config.grid.size(); ++a) {
    cuts.push_back(cut_points(config.grid[a], a == 0 ? parts : 1, uneven, config.patch[a]));
  }
  return cuts;
}

Layout layout_of(const Mesh& domain, const GridCuts& cuts, Index channels) {
  Shape shape{1};
  for (const Partition& cut : cuts) shape.push_back(cut.extent());
  shape.push_back(channels);
  return Layout(domain, {Shard(1)}, shape, {cuts[0]});
}

Operations operations_of(const ModelConfig& config, const GridCuts& cuts) {
  Operations all;
  for (int rank = 0; rank < ranks_of(cuts); ++rank) {
    const SampleCost cost = sample_cost(config, cuts, rank);
    all.forward += cost.forward_operations;
    all.backward += cost.backward_operations;
  }
  return all;
}

}  // namespace tessera::bench
