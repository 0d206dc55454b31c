#pragma once

// What tests of communication share: what a piece of work sends, and tensors cut over meshes of every form.

#include <functional>
#include <ostream>
#include <vector>

#include "parallel/comm_stats.hpp"
#include "solver/tensor/tensor.hpp"
#include "tests/support/sharded.hpp"

namespace tessera::testing {

struct Traffic {
  Index calls = 0;
  Index bytes = 0;
  bool operator==(const Traffic&) const = default;
  Traffic operator*(Index n) const { return {n * calls, n * bytes}; }
  friend std::ostream& operator<<(std::ostream& to, const Traffic& t) {
    return to << t.calls << " messages, " << t.bytes << " bytes";
  }
};

struct Counted {
  Traffic messages;
  Index collectives = 0;
};

inline Counted counted(const std::function<void()>& body) {
  CommStats& stats = CommStats::global();
  stats.reset();
  body();
  const CommCount sent = stats.total("send");
  return {{static_cast<Index>(sent.calls), static_cast<Index>(sent.bytes)},
          static_cast<Index>(stats.collective_calls())};
}

/// Meshes of one and two axes, in 1-D and 2-D.
inline std::vector<Mesh> domain_meshes() {
  std::vector<Mesh> result;
  for (const Mesh& mesh : meshes(2)) result.push_back(mesh);
  return result;
}

/// Grid axis a cut by mesh axis a, uneven.
inline Layout grid_layout(const Mesh& mesh, const Shape& shape, Index unit = 1, int first_dim = 1) {
  Placements placements;
  std::vector<Partition> cuts;
  for (int a = 0; a < mesh.axes(); ++a) {
    placements.push_back(Shard(first_dim + a));
    std::vector<double> weights;
    for (int p = 0; p < mesh.axis_size(a); ++p) weights.push_back(p % 2 ? 1.0 : 1.7);
    cuts.push_back(Partition::from_weights(shape[first_dim + a], weights, unit));
  }
  return Layout(mesh, placements, shape, cuts);
}

inline Tensor weight_of(Index first, Index second, Index kernel, int axes) {
  Shape shape{first, second};
  for (int a = 0; a < axes; ++a) shape.push_back(kernel);
  return Tensor::zeros(shape, DType::f64);
}

}  // namespace tessera::testing
