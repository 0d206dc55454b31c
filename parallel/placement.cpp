#include "parallel/placement.hpp"

#include <fmt/format.h>

namespace tessera {

std::string to_string(const Placement& placement) {
  constexpr std::string_view reductions[] = {"sum", "avg", "max", "min"};
  switch (placement.kind) {
    case Placement::Kind::shard:
      return fmt::format("Shard({})", placement.dim);
    case Placement::Kind::replicate:
      return "Replicate";
    default:
      return fmt::format("Partial({})", reductions[static_cast<int>(placement.op)]);
  }
}

std::string to_string(const Placements& placements) {
  std::string text = "[";
  for (int a = 0; a < placements.size(); ++a) text += (a ? ", " : "") + to_string(placements[a]);
  return text + "]";
}

}  // namespace tessera
