// stencil: the shallow-water solver, against the memory's bandwidth.
#include <limits>

#include "app/bench/kinds.hpp"
#include "solver/physics/shallow_water.hpp"
#include "solver/physics/shallow_water_kernels.hpp"

namespace tessera::bench {

Work make_stencil(const Place& place, const Case& c) {
  ShallowWaterOptions options;
  options.ny = options.nx = c.size;
  options.length_y = options.length_x = static_cast<double>(c.size);
  options.precision = c.precision;
  options.bathymetry.hills = {{0.2, 0.3 * options.length_y, 0.4 * options.length_x, 0.1 * options.length_x}};
  const auto water =
      std::make_shared<ShallowWater>(options, cut_over(place.group, {1, c.size, c.size, 3}, 1, c.uneven));
  const double length = options.length_x;
  water->set_state([=](Index j, Index i) {
    const double y = (static_cast<double>(j) + 0.5) / length - 0.5;
    const double x = (static_cast<double>(i) + 0.5) / length - 0.5;
    return WaterCell{1 + 0.2 * std::exp(-40 * (x * x + y * y)), 0, 0};
  });
  Work work;
  work.run = [water] { water->step(std::numeric_limits<double>::max()); };
  work.amount = static_cast<double>(c.size) * static_cast<double>(c.size);
  work.limit_name = "memory bandwidth";
  const double bytes_of_cell = detail::kWaterNumbersMoved * static_cast<double>(size_of(c.precision));
  work.limit = [bytes_of_cell, &limits = place.limits] { return limits.triad() / bytes_of_cell; };
  return work;
}

}  // namespace tessera::bench
