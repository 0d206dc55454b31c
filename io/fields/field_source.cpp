#include "io/fields/field_source.hpp"

namespace tessera {

void FieldSource::check_request(Index trajectory, Index step, std::span<const int> channels,
                                const Box& box) const {
  const auto trajectories = static_cast<Index>(fields_.trajectories.size());
  require(0 <= trajectory && trajectory < trajectories, "FieldSource", "trajectory {} of {}", trajectory,
          trajectories);
  const Index steps = fields_.trajectories[static_cast<std::size_t>(trajectory)].steps;
  require(0 <= step && step < steps, "FieldSource", "step {} of {}", step, steps);
  for (const int c : channels) {
    require(0 <= c && c < static_cast<int>(fields_.channels.size()), "FieldSource", "channel {} of {}", c,
            fields_.channels.size());
  }
  const Shape grid = fields_.grid();
  require(box.size() == grid.size(), "FieldSource", "box {} of a grid {}", to_string(box), to_string(grid));
  require(box.is_empty() || intersect(box, Box::whole(grid)) == box, "FieldSource", "box {} of a grid {}",
          to_string(box), to_string(grid));
}

}  // namespace tessera
