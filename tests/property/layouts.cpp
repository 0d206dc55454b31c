#include "tests/property/layouts.hpp"

#include <algorithm>

#include "tests/golden/partitions.hpp"
#include "tests/support/world.hpp"

namespace tessera::property {
namespace {

Partition draw_cuts(Draw& draw, Index extent, int parts) {
  const Index kind = draw.in(0, 5);
  if (kind == 0) return Partition::even(extent, parts);
  if (kind == 1) return Partition::chunk(extent, parts);
  if (kind == 2) {
    const auto owner = static_cast<std::size_t>(draw.in(0, parts - 1));
    std::vector<Index> sizes(static_cast<std::size_t>(parts));
    sizes[owner] = extent;
    return Partition::from_sizes(sizes);
  }
  return testing::random_cuts(draw.random(), extent, parts,
                              kind == 3 ? testing::Cuts::empty : testing::Cuts::uneven);
}

}  // namespace

Mesh draw_mesh(Random& random) {
  static golden::DomainMeshes meshes(testing::world());
  const int axes = static_cast<int>(std::vector<Index>{1, 1, 2, 2, 3}[testing::pick(random, 0, 4)]);
  const std::vector<Mesh>& choices = meshes.with_axes(axes);
  return choices[static_cast<std::size_t>(testing::pick(random, 0, static_cast<Index>(choices.size()) - 1))];
}

Layout draw_layout(Draw& draw, const Shape& shape, std::vector<int> dims, bool partial) {
  const Mesh& mesh = draw.mesh();
  Placements placements;
  std::vector<Partition> partitions;
  for (int a = 0; a < mesh.axes(); ++a) {
    partitions.push_back(Partition::even(0, 1));
    if (partial && draw.one_in(10)) {
      // Sums are what operators leave behind.
      placements.push_back(Partial(draw.one_in(2) ? ReduceOp::sum : static_cast<ReduceOp>(draw.in(0, 3))));
    } else if (dims.empty() || draw.one_in(5)) {
      placements.push_back(Replicate());
    } else {
      const auto at = dims.begin() + draw.in(0, static_cast<Index>(dims.size()) - 1);
      placements.push_back(Shard(*at));
      partitions.back() = draw_cuts(draw, shape[*at], mesh.axis_size(a));
      dims.erase(at);
    }
  }
  return Layout(mesh, placements, shape, std::move(partitions));
}

std::vector<Layout> draw_layouts(Draw& draw, const OperatorCase& c) {
  std::vector<Layout> layouts;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const auto& o = c.operands[i];
    const Layout last = i > 0 ? layouts.back() : Layout();
    const bool floating = !o.type || is_floating(*o.type);
    if (draw.one_in(5)) {
      layouts.emplace_back();
    } else if (last && last.shape() == o.shape && !o.dims.empty() && draw.one_in(3)) {
      layouts.push_back(o.partial ? last : last.reduced());
    } else {
      layouts.push_back(draw_layout(draw, o.shape, o.dims, o.partial && floating));
    }
  }
  return layouts;
}

}  // namespace tessera::property
