#include "app/mesh_deck.hpp"

#include "parallel/mesh_axes.hpp"

namespace tessera {
namespace {

void describe_partition(Section& s, bool may_move) {
  s.selector("type").defaults("even").help("how the cells of an axis are shared out");
  s.variant(
      "even", [](Section&) {}, "sizes differ by at most one unit");
  s.variant(
      "chunk", [](Section&) {}, "ceil(cells / ranks) each, the last ranks short or empty");
  s.variant(
      "weights",
      [](Section& v) { v.reals("weights").min(0).help("one per rank, in proportion to its speed"); },
      "in proportion to weights");
  s.variant(
      "sizes", [](Section& v) { v.integers("sizes").min(0).help("cells of each rank; 0 is legal"); },
      "given");
  if (!may_move) return;
  s.variant(
      "measured",
      [](Section& v) {
        v.integer("after").min(1).defaults(Index{10}).help(
            "updates with even parts before the cut points move");
        v.integer("every").min(0).defaults(Index{0}).help("updates between further moves; 0: none");
      },
      "even at first, then in proportion to each rank's measured speed");
}

Partition make_partition(const Deck& deck, Index cells, int parts, Index unit) {
  const auto type = deck.get<std::string>("type");
  auto check_length = [&](const char* key, std::size_t found) {
    if (found != static_cast<std::size_t>(parts)) {
      throw deck.error(key, "found {} entries, expected one for each of {} ranks", found, parts);
    }
  };
  if (type == "chunk") return Partition::chunk(cells, parts);
  if (type == "sizes") {
    const auto sizes = deck.get<std::vector<Index>>("sizes");
    check_length("sizes", sizes.size());
    for (const Index size : sizes) {
      if (size > cells)
        throw deck.error("sizes", "found {} cells for one rank, expected {} in all", size, cells);
    }
    const Partition partition = Partition::from_sizes(sizes);
    if (partition.extent() != cells) {
      throw deck.error("sizes", "found {} cells in all, expected {}", partition.extent(), cells);
    }
    return partition;
  }
  std::vector<double> weights(static_cast<std::size_t>(parts), 1.0);
  if (type == "weights") {
    weights = deck.get<std::vector<double>>("weights");
    check_length("weights", weights.size());
    if (*std::max_element(weights.begin(), weights.end()) <= 0)
      throw deck.error("weights", "all weights are zero");
  } else if (unit == 1) {
    return Partition::even(cells, parts);
  }
  return Partition::from_weights(cells, weights, unit);
}

}  // namespace

void describe_mesh(Section& s, bool may_move) {
  s.integer("ddp").min(-1).defaults(Index{1}).help(
      "groups of ranks that train on different samples; -1: whatever is left");
  s.integers("domain")
      .single_allowed()
      .length(1, 3)
      .min(-1)
      .defaults(std::vector<Index>{-1})
      .help("ranks along the first, second, ... grid axis of one sample; one may be -1: whatever is left");
  s.sections("partition", [may_move](Section& p) { describe_partition(p, may_move); })
      .single_allowed()
      .length(0, 3)
      .empty()
      .help("cut points of the first, second, ... grid axis; even where not given");
}

std::vector<MeshAxis> mesh_axes(const Deck& deck, int ranks) {
  std::vector<MeshAxis> axes{{"ddp", deck.get<int>("mesh.ddp")}};
  const auto domain = deck.get<std::vector<int>>("mesh.domain");
  for (std::size_t i = 0; i < domain.size(); ++i) {
    axes.push_back({domain.size() == 1 ? "domain" : "domain_" + std::to_string(i), domain[i]});
  }
  try {
    return resolved_axes(axes, ranks);
  } catch (const Error& e) {
    if (e.code() != ExitCode::usage) throw;
    throw deck.error("mesh", "{}", e.what());
  }
}

std::vector<Partition> grid_cuts(const Deck& deck, std::span<const MeshAxis> axes, const Shape& grid,
                                 const Shape& unit) {
  const std::span<const MeshAxis> domain = axes.subspan(1);  // behind ddp
  if (domain.size() > static_cast<std::size_t>(grid.size())) {
    throw deck.error("mesh.domain", "found {} entries, the grid has {} axes", domain.size(), grid.size());
  }
  const std::vector<Deck> partitions = deck.sections("mesh.partition");
  if (partitions.size() > domain.size()) {
    throw deck.error("mesh.partition", "found {} entries, mesh.domain has {}", partitions.size(),
                     domain.size());
  }
  std::vector<Partition> cuts;
  for (int a = 0; a < grid.size(); ++a) {
    const auto i = static_cast<std::size_t>(a);
    const int parts = i < domain.size() ? domain[i].size : 1;
    if (i < partitions.size()) {
      cuts.push_back(make_partition(partitions[i], grid[a], parts, unit[a]));
    } else {
      const std::vector<double> equal(static_cast<std::size_t>(parts), 1.0);
      cuts.push_back(unit[a] == 1 ? Partition::even(grid[a], parts)
                                  : Partition::from_weights(grid[a], equal, unit[a]));
    }
  }
  return cuts;
}

std::optional<MeasuredPartition> measured_partition(const Deck& deck, const Mesh& domain) {
  MeasuredPartition measured;
  measured.axes.assign(static_cast<std::size_t>(domain.axes()), false);
  bool any = false;
  const std::vector<Deck> partitions = deck.sections("mesh.partition");
  for (std::size_t i = 0; i < partitions.size() && i < measured.axes.size(); ++i) {
    if (partitions[i].get<std::string>("type") != "measured") continue;
    const Index after = partitions[i].get<Index>("after"), every = partitions[i].get<Index>("every");
    measured.axes[i] = true;
    measured.after = any ? std::min(measured.after, after) : after;
    measured.every = measured.every == 0 || (every > 0 && every < measured.every) ? every : measured.every;
    any = true;
  }
  return any ? std::optional(measured) : std::nullopt;
}

Mesh make_mesh(const Deck& deck, const CommPtr& world) {
  return Mesh(world, mesh_axes(deck, world->size()));
}

Layout grid_layout(const Deck& deck, const Mesh& domain, const Shape& grid, const Shape& unit) {
  std::vector<MeshAxis> axes{{"ddp", 1}};
  Placements placements;
  for (int a = 0; a < domain.axes(); ++a) {
    axes.push_back({std::string(domain.axis_name(a)), domain.axis_size(a)});
    placements.push_back(Shard(a + 1));
  }
  Shape shape{1};
  for (Index extent : grid) shape.push_back(extent);
  shape.push_back(1);
  std::vector<Partition> cuts = grid_cuts(deck, axes, grid, unit);
  cuts.erase(cuts.begin() + domain.axes(), cuts.end());
  return Layout(domain, placements, shape, cuts);
}

}  // namespace tessera
