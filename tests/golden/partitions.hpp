#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parallel/layout.hpp"
#include "tests/golden/golden_file.hpp"

namespace tessera::golden {

/// How the axes of a case are cut.
enum class Cuts {
  even,
  uneven,  ///< at random, alike for all inputs of one extent
  empty,   ///< the same with an empty part
  differ,  ///< at random, for each input by itself
};
std::string name_of(Cuts cuts);
/// The kinds that an argument of --partition asks for (even, uneven, empty or all); throws (usage).
std::vector<Cuts> cuts_of(const std::string& argument);

/// Domain meshes over all ranks.
class DomainMeshes {
 public:
  explicit DomainMeshes(CommPtr world) : world_(std::move(world)) {}

  /// Those with this number of axes, one for each way of writing the number of ranks as a product. Collective
  /// the first time.
  const std::vector<Mesh>& with_axes(int axes);

 private:
  CommPtr world_;
  std::map<int, std::vector<Mesh>> made_;
};

/// The layouts of the sharded inputs of a case.
using Layouts = std::map<std::string, Layout>;
/// Cut points follow from `seed` alone. Throws (input_file) where a sharding does not fit.
Layouts layouts_of(const OpCase& c, const Sharding& sharding, const Mesh& mesh, Cuts cuts,
                   std::uint64_t seed);
/// "x [Shard(2) 0:4:9]; ..." and the mesh.
std::string to_string(const Layouts& layouts);

}  // namespace tessera::golden
