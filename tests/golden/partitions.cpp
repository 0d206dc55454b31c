#include "tests/golden/partitions.hpp"

#include "tests/support/sharded.hpp"

namespace tessera::golden {
namespace {

void factorise(int ranks, int axes, std::vector<int> sizes, std::vector<std::vector<int>>& all) {
  if (axes == 1) {
    sizes.push_back(ranks);
    all.push_back(sizes);
    return;
  }
  for (int size = ranks; size >= 1; --size) {
    if (ranks % size) continue;
    std::vector<int> longer = sizes;
    longer.push_back(size);
    factorise(ranks / size, axes - 1, longer, all);
  }
}

}  // namespace

std::string name_of(Cuts cuts) {
  constexpr const char* names[] = {"even", "uneven", "empty", "differ"};
  return names[static_cast<int>(cuts)];
}

std::vector<Cuts> cuts_of(const std::string& argument) {
  if (argument == "even") return {Cuts::even};
  if (argument == "uneven") return {Cuts::uneven, Cuts::differ};
  if (argument == "empty") return {Cuts::empty};
  if (argument == "all") return {Cuts::even, Cuts::uneven, Cuts::empty, Cuts::differ};
  fail(ExitCode::usage, "--partition", "found '{}', expected even, uneven, empty or all", argument);
}

const std::vector<Mesh>& DomainMeshes::with_axes(int axes) {
  std::vector<Mesh>& meshes = made_[axes];
  if (!meshes.empty()) return meshes;
  std::vector<std::vector<int>> all;
  factorise(world_->size(), axes, {}, all);
  for (const std::vector<int>& sizes : all) {
    std::vector<MeshAxis> named;
    for (int size : sizes) named.push_back({"domain" + std::to_string(named.size()), size});
    meshes.emplace_back(world_, named);
  }
  return meshes;
}

Layouts layouts_of(const OpCase& c, const Sharding& sharding, const Mesh& mesh, Cuts cuts,
                   std::uint64_t seed) {
  Layouts layouts;
  testing::Random random(seed);
  const testing::Cuts kind = cuts == Cuts::empty ? testing::Cuts::empty : testing::Cuts::uneven;
  std::map<std::pair<int, Index>, Partition> shared;
  for (const std::string& name : c.input_order) {
    if (!sharding.count(name)) continue;
    const std::vector<int>& dims = sharding.at(name);
    const Shape& shape = c.inputs.at(name).shape;
    Placements placements;
    std::vector<Partition> partitions;
    for (int a = 0; a < mesh.axes(); ++a) {
      const int dim = dims[static_cast<std::size_t>(a)];
      if (dim < 0 || dim >= shape.size()) {
        fail(ExitCode::input_file, c.name, "sharding of '{}': no dimension {}", name, dim);
      }
      const int parts = mesh.axis_size(a);
      const auto draw = [&] {
        return cuts == Cuts::even ? Partition::even(shape[dim], parts)
                                  : testing::random_cuts(random, shape[dim], parts, kind);
      };
      Partition partition = draw();
      const auto [first, is_first] = shared.emplace(std::pair{a, shape[dim]}, partition);
      // Inputs of one extent are cut alike, or each unlike the first, where there are two ways to cut at all.
      if (cuts != Cuts::differ) partition = first->second;
      while (cuts == Cuts::differ && !is_first && partition == first->second && parts > 1 && shape[dim] > 0) {
        partition = draw();
      }
      placements.push_back(Shard(dim));
      partitions.push_back(partition);
    }
    layouts[name] = Layout(mesh, placements, shape, partitions);
  }
  for (const auto& [name, dims] : sharding) {
    if (!layouts.count(name)) fail(ExitCode::input_file, c.name, "sharding of an unknown input '{}'", name);
  }
  return layouts;
}

std::string to_string(const Layouts& layouts) {
  std::string text;
  for (const auto& [name, layout] : layouts) {
    text += (text.empty() ? "" : "; ") + name + " " + tessera::to_string(layout);
  }
  return text;
}

}  // namespace tessera::golden
