#include "solver/physics/shallow_water_initial.hpp"

#include <cmath>
#include <functional>
#include <numbers>
#include <utility>
#include <vector>

#include "parallel/error.hpp"
#include "solver/tensor/random.hpp"

namespace tessera {
namespace {

constexpr const char* kWhere = "shallow_water initial state";
constexpr double kPi = std::numbers::pi;

using Surface = std::function<double(Index j, Index i)>;

bool periodic_y(const ShallowWater& solver) {
  return solver.options().sides.y_low == WaterSide::periodic;
}
bool periodic_x(const ShallowWater& solver) {
  return solver.options().sides.x_low == WaterSide::periodic;
}

double nearest(double distance, double length, bool periodic) {
  return periodic ? distance - length * std::round(distance / length) : distance;
}

struct Point {
  double y = 0, x = 0;
};

// Square of the distance of a cell's centre, to the nearest image along periodic axes.
double distance_squared(const ShallowWater& solver, Index j, Index i, Point to) {
  const double dy = nearest(solver.y(j) - to.y, solver.options().length_y, periodic_y(solver));
  const double dx = nearest(solver.x(i) - to.x, solver.options().length_x, periodic_x(solver));
  return dx * dx + dy * dy;
}

Surface dam(const ShallowWater& solver, const WaterStartOptions& o, const CounterRandom& random) {
  const auto& grid = solver.options();
  const Point at{grid.length_y * (o.position_y + random.uniform(0, -o.jitter, o.jitter)),
                 grid.length_x * (o.position_x + random.uniform(1, -o.jitter, o.jitter))};
  if (o.kind == WaterStart::planar_dam) {
    const bool along_x = o.axis == 'x';
    return [=, &solver](Index j, Index i) {
      const bool behind = along_x ? solver.x(i) < at.x : solver.y(j) < at.y;
      return behind ? o.inside : o.level;
    };
  }
  const double radius = o.radius * (1 + random.uniform(2, -o.jitter, o.jitter));
  return [=, &solver](Index j, Index i) {
    return distance_squared(solver, j, i, at) < radius * radius ? o.inside : o.level;
  };
}

Surface bumps(const ShallowWater& solver, const WaterStartOptions& o, const CounterRandom& random) {
  struct Bump {
    Point at;
    double height, over;
  };
  std::vector<Bump> all;
  for (int b = 0; b < o.count; ++b) {
    const auto draw = static_cast<std::uint64_t>(4 * b);
    const double width = o.width * random.uniform(draw + 3, 1, 1.5);
    all.push_back({{solver.options().length_y * random.uniform(draw),
                    solver.options().length_x * random.uniform(draw + 1)},
                   o.amplitude * random.uniform(draw + 2, 0.5, 1),
                   1 / (2 * width * width)});
  }
  return [=, &solver](Index j, Index i) {
    double surface = o.level;
    for (const Bump& b : all) surface += b.height * std::exp(-b.over * distance_squared(solver, j, i, b.at));
    return surface;
  };
}

// cos(2 pi k s + phase) over cells of a periodic axis, cos(pi k s) of another, which is level at its ends; s
// = fraction of the length.
std::vector<double> wave(Range cells, Index n, int k, bool periodic, double phase) {
  std::vector<double> values;
  for (Index i = cells.lo; i < cells.hi; ++i) {
    const double s = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    values.push_back(periodic ? std::cos(2 * kPi * k * s + phase) : std::cos(kPi * k * s));
  }
  return values;
}

// level + sum over (p, q) != (0, 0) of a_pq Y_p(y) X_q(x), each mode with its own phases; a_pq is normal with
// a variance that falls like 1 / (1 + p^2 + q^2), scaled so that the sum has the given standard deviation
// over phases and draws.
Surface modes(const ShallowWater& solver, const WaterStartOptions& o, const CounterRandom& random) {
  const auto& grid = solver.options();
  const Box& box = solver.layout().local_box();
  const Range rows = box.is_empty() ? Range{} : box[1], columns = box.is_empty() ? Range{} : box[2];
  const int n = o.max_wavenumber + 1;
  const auto share = [](int p, int q) { return 1.0 / (1 + p * p + q * q); };
  double variance = 0;
  for (int p = 0; p < n; ++p) {
    for (int q = p == 0 ? 1 : 0; q < n; ++q) variance += share(p, q) * (p > 0 ? 0.5 : 1) * (q > 0 ? 0.5 : 1);
  }
  std::vector<double> surface(static_cast<std::size_t>(rows.size() * columns.size()), o.level);
  for (int p = 0; p < n; ++p) {
    for (int q = p == 0 ? 1 : 0; q < n; ++q) {
      const auto draw = static_cast<std::uint64_t>(3 * (p * n + q));
      const double amplitude = o.amplitude * std::sqrt(share(p, q) / variance) * random.normal(draw);
      const auto y = wave(rows, grid.ny, p, periodic_y(solver), 2 * kPi * random.uniform(draw + 1));
      const auto x = wave(columns, grid.nx, q, periodic_x(solver), 2 * kPi * random.uniform(draw + 2));
      for (std::size_t j = 0; j < y.size(); ++j) {
        for (std::size_t i = 0; i < x.size(); ++i) surface[j * x.size() + i] += amplitude * y[j] * x[i];
      }
    }
  }
  return [surface = std::move(surface), rows, columns](Index j, Index i) {
    return surface[static_cast<std::size_t>((j - rows.lo) * columns.size() + i - columns.lo)];
  };
}

Surface surface_of(const ShallowWater& solver, const WaterStartOptions& o) {
  const CounterRandom random(o.seed, o.trajectory);
  switch (o.kind) {
    case WaterStart::planar_dam:
    case WaterStart::circular_dam:
      return dam(solver, o, random);
    case WaterStart::bumps:
      return bumps(solver, o, random);
    case WaterStart::modes:
      return modes(solver, o, random);
    default:
      return [level = o.level](Index, Index) { return level; };
  }
}

}  // namespace

void validate(const WaterStartOptions& o) {
  const auto check = [](bool fits, const char* name, auto value, const char* expected) {
    if (!fits) fail(ExitCode::usage, kWhere, "{}: found {}, expected {}", name, value, expected);
  };
  check(std::isfinite(o.level), "level", o.level, "a finite number");
  check(std::isfinite(o.inside), "inside", o.inside, "a finite number");
  check(o.axis == 'x' || o.axis == 'y', "axis", o.axis, "x or y");
  check(o.radius > 0, "radius", o.radius, "> 0");
  check(o.jitter >= 0 && o.jitter < 1, "jitter", o.jitter, "0 <= jitter < 1");
  check(o.count >= 0, "count", o.count, ">= 0");
  check(std::isfinite(o.amplitude), "amplitude", o.amplitude, "a finite number");
  check(o.width > 0, "width", o.width, "> 0");
  check(o.max_wavenumber >= 1 && o.max_wavenumber <= 256, "max_wavenumber", o.max_wavenumber, "1 to 256");
}

void set_initial_state(ShallowWater& solver, const WaterStartOptions& options) {
  validate(options);
  const Surface surface = surface_of(solver, options);
  solver.set_state([&](Index j, Index i) { return WaterCell{surface(j, i) - solver.bed_at(j, i), 0, 0}; });
}

}  // namespace tessera
