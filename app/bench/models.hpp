#pragma once

#include <span>
#include <string>

#include "solver/nn/cost.hpp"
#include "solver/nn/model.hpp"

namespace tessera::bench {

/// A model of the benchmarks: 8 channels in and out.
struct ModelPreset {
  std::string name;
  std::string summary;
  Index size = 0;  ///< default grid cells per axis
  int axes = 2;
  ModelConfig config;  ///< without grid and patch

  /// For a grid of `cells` per axis; bf16: its products, with parameters in f32.
  ModelConfig at(Index cells, DType type) const;
};

std::span<const ModelPreset> models();
/// Throws (usage), with the nearest name, where there is none.
const ModelPreset& find_model(const std::string& name);

/// The first grid axis cut into `parts` at whole patches.
GridCuts cut_grid(const ModelConfig& config, int parts, bool uneven);
/// The boxes of `cuts` over a mesh (domain), for (1, *grid, channels).
Layout layout_of(const Mesh& domain, const GridCuts& cuts, Index channels);

/// Operations of all ranks of a domain group for one sample.
struct Operations {
  double forward = 0, backward = 0;
};
Operations operations_of(const ModelConfig& config, const GridCuts& cuts);

}  // namespace tessera::bench
