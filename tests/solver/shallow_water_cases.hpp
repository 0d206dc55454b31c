// Solvers on small basins, and whole fields on the host, for the tests of the shallow-water solver.
#pragma once

#include <vector>

#include "parallel/mesh.hpp"
#include "solver/physics/shallow_water.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {

/// Layout of (1, ny, nx, 3) with rows (or columns) cut evenly over all ranks.
inline Layout strips(const ShallowWaterOptions& o, int dim = 1) {
  const MeshAxis axis{"domain", world()->size()};
  return Layout::even(Mesh(world(), {&axis, 1}), {Shard(dim)}, {1, o.ny, o.nx, 3});
}

/// The layout of one process.
inline Layout alone(const ShallowWaterOptions& o) {
  const MeshAxis axis{"domain", 1};
  return Layout::replicated(Mesh(self_communicator(), {&axis, 1}), {1, o.ny, o.nx, 3});
}

/// The whole state, row-major (ny, nx, 3), on every rank of a mesh without replicas. For small grids of tests
/// only.
inline std::vector<double> whole_state(const ShallowWater& solver) {
  const Layout& layout = solver.layout();
  Communicator& comm = layout.mesh().comm();
  const std::vector<double> own = solver.state().to_host<double>();
  std::vector<Index> counts;
  for (int r = 0; r < comm.size(); ++r) counts.push_back(layout.box(r).volume());
  std::vector<double> blocks(static_cast<std::size_t>(count(layout.shape())), -1);
  std::vector<double> whole(blocks.size());
  if (layout.is_replicated()) return own;
  comm.all_gather(own.data(), blocks.data(), counts, DType::f64);
  std::size_t from = 0;
  for (int r = 0; r < comm.size(); ++r) {
    const Box box = layout.box(r);
    if (box.is_empty()) continue;
    for (Index j = box[1].lo; j < box[1].hi; ++j) {
      for (Index i = box[2].lo; i < box[2].hi; ++i) {
        for (Index c = 0; c < 3; ++c) {
          whole[static_cast<std::size_t>((j * layout.shape()[2] + i) * 3 + c)] = blocks[from++];
        }
      }
    }
  }
  return whole;
}

inline WaterSides all_sides(WaterSide side) {
  return {side, side, side, side};
}

inline ShallowWaterOptions basin(Index ny, Index nx, double length_y, double length_x, WaterSides sides) {
  ShallowWaterOptions o;
  o.ny = ny;
  o.nx = nx;
  o.length_y = length_y;
  o.length_x = length_x;
  o.sides = sides;
  return o;
}

}  // namespace tessera::testing
