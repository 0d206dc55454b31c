#include "solver/physics/shallow_water.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "parallel/comm_stats.hpp"
#include "parallel/error.hpp"
#include "solver/physics/shallow_water_kernels.hpp"
#include "solver/tensor/operator_clock.hpp"

namespace tessera {
namespace {

using detail::kWaterGhosts;

constexpr const char* kWhere = "shallow_water";
constexpr int kAttempts = 10;  // a step is halved at most so often before it counts as failed

/// Time and messages of the exchange of ghosts.
struct HaloScope {
  CommScope booked{"water halo"};
  OperatorTimer timer{"water halo", false};
};

/// The largest rate of all ranks, which limits the time step.
double fastest_of(Communicator& comm, double rate) {
  const CommScope booked("water time step");
  const OperatorTimer timer("water time step", false);
  return comm.all_reduce_value(rate, ReduceOp::max);
}

double theta_of(SlopeLimiter limiter) {
  switch (limiter) {
    case SlopeLimiter::none:
      return 0;
    case SlopeLimiter::minmod:
      return 1;
    case SlopeLimiter::middle:
      return 1.5;
    default:
      return 2;
  }
}

// Where cells of an axis come from, up to two of them beyond each of its sides. A wall mirrors cells, an open
// side repeats the last; of a single cell, all are that one.
AxisMap with_ghosts(Range needed, Index n, WaterSide low, WaterSide high) {
  if (low == WaterSide::periodic) return map_with_boundary(needed, n, Boundary::periodic);
  AxisMap map{needed, {}};
  const Range below = intersect(needed, {-kWaterGhosts, 0}), inside = intersect(needed, {0, n});
  const Range above = intersect(needed, {n, n + kWaterGhosts});
  const bool mirror_low = low == WaterSide::wall && n > 1, mirror_high = high == WaterSide::wall && n > 1;
  if (!below.empty())
    map.segments.push_back({below.lo, below.size(), mirror_low ? -1 - below.lo : 0, mirror_low ? -1 : 0});
  if (!inside.empty()) map.segments.push_back({inside.lo, inside.size(), inside.lo, 1});
  if (!above.empty()) {
    const Index from = mirror_high ? 2 * n - 1 - above.lo : n - 1;
    map.segments.push_back({above.lo, above.size(), from, mirror_high ? -1 : 0});
  }
  return map;
}

NeedMap need_of_cells(const Layout& layout, Range rows, Range columns, const WaterSides& sides) {
  const Shape& shape = layout.shape();
  return {map_identity({0, 1}), with_ghosts(rows, shape[1], sides.y_low, sides.y_high),
          with_ghosts(columns, shape[2], sides.x_low, sides.x_high), map_identity({0, shape[3]})};
}

Range widened(Range own) {
  return {own.lo - kWaterGhosts, own.hi + kWaterGhosts};
}

// Rows below the box and above it, as wide as box and ghosts; columns left and right of it.
ExchangePlan ghost_plan(const Layout& layout, const WaterSides& sides) {
  return ExchangePlan(layout, std::function([&](int rank) {
                        std::vector<NeedMap> needs;
                        const Box box = layout.box(rank);
                        if (box.is_empty()) return needs;
                        const Range y = box[1], x = box[2];
                        const auto need = [&](Range rows, Range columns) {
                          needs.push_back(need_of_cells(layout, rows, columns, sides));
                        };
                        need({y.lo - kWaterGhosts, y.lo}, widened(x));
                        need({y.hi, y.hi + kWaterGhosts}, widened(x));
                        need(y, {x.lo - kWaterGhosts, x.lo});
                        need(y, {x.hi, x.hi + kWaterGhosts});
                        return needs;
                      }));
}

// Box and ghosts in one.
ExchangePlan padded_plan(const Layout& layout, const WaterSides& sides) {
  return ExchangePlan(layout, std::function([&](int rank) {
                        const Box box = layout.box(rank);
                        if (box.is_empty()) return NeedMap::filled(4, map_identity({0, 0}));
                        return need_of_cells(layout, widened(box[1]), widened(box[2]), sides);
                      }));
}

void check_layout(const ShallowWaterOptions& options, const Layout& layout) {
  const Shape expected{1, options.ny, options.nx, 3};
  if (!(layout.shape() == expected)) {
    fail(ExitCode::internal, kWhere, "layout of shape {}, expected {}", to_string(layout.shape()),
         to_string(expected));
  }
  for (const Placement& p : layout.placements()) {
    const bool fits = p.is_replicate() || (p.is_shard() && (p.dim == 1 || p.dim == 2));
    require(fits, kWhere, "found placement {}, expected Replicate, Shard(1) or Shard(2)", to_string(p));
  }
}

// Signed distance along an axis, to the nearest image where it is periodic.
double distance(double a, double b, double length, bool periodic) {
  const double d = a - b;
  return periodic ? d - length * std::round(d / length) : d;
}

}  // namespace

void validate(const ShallowWaterOptions& o) {
  const auto positive = [](double value, const char* name) {
    if (!(value > 0) || !std::isfinite(value))
      fail(ExitCode::usage, kWhere, "{}: found {}, expected > 0", name, value);
  };
  if (o.ny < 1 || o.nx < 1)
    fail(ExitCode::usage, kWhere, "grid: found {} x {} cells, expected at least 1 x 1", o.ny, o.nx);
  positive(o.length_y, "length_y");
  positive(o.length_x, "length_x");
  positive(o.gravity, "gravity");
  positive(o.cfl, "cfl");
  positive(o.dry_depth, "dry_depth");
  if (o.cfl > 1) fail(ExitCode::usage, kWhere, "cfl: found {}, expected at most 1", o.cfl);
  if (!(o.max_time_step >= 0))
    fail(ExitCode::usage, kWhere, "max_time_step: found {}, expected >= 0", o.max_time_step);
  if (!(o.min_time_step >= 0))
    fail(ExitCode::usage, kWhere, "min_time_step: found {}, expected >= 0", o.min_time_step);
  for (const GaussianHill& hill : o.bathymetry.hills) positive(hill.width, "bathymetry: width of a hill");
  const auto paired = [](WaterSide low, WaterSide high, const char* axis) {
    if ((low == WaterSide::periodic) != (high == WaterSide::periodic)) {
      fail(ExitCode::usage, kWhere, "sides: {} is periodic on one side only, expected both or none", axis);
    }
  };
  paired(o.sides.y_low, o.sides.y_high, "y");
  paired(o.sides.x_low, o.sides.x_high, "x");
  if (o.precision != DType::f64 && o.precision != DType::f32) {
    fail(ExitCode::usage, kWhere, "precision: found {}, expected f64 or f32", name_of(o.precision));
  }
}

std::vector<WaterField> shallow_water_fields(bool velocity) {
  return {{"height", "m", 0, {}},
          {velocity ? "velocity" : "momentum", velocity ? "m/s" : "m^2/s", 1, {"x", "y"}}};
}

ShallowWater::ShallowWater(ShallowWaterOptions options, Layout layout)
    : options_((validate(options), std::move(options))),
      layout_((check_layout(options_, layout), std::move(layout))),
      plan_(ghost_plan(layout_, options_.sides)),
      state_(Tensor::empty(layout_, options_.precision)),
      middle_(Tensor::empty(layout_, options_.precision)),
      next_(Tensor::empty(layout_, options_.precision)),
      ghosts_(Tensor::empty({count(plan_.destination_shape())}, options_.precision)) {
  const Box& box = layout_.local_box();
  if (!box.is_empty()) {
    const auto beyond = [](Range own, Index n, WaterSide low, WaterSide high, Index(&out)[2]) {
      if (low == WaterSide::wall) out[0] = std::max<Index>(kWaterGhosts - own.lo, 0);
      if (high == WaterSide::wall) out[1] = std::max<Index>(own.hi + kWaterGhosts - n, 0);
    };
    beyond(box[1], options_.ny, options_.sides.y_low, options_.sides.y_high, halo_.wall_rows);
    beyond(box[2], options_.nx, options_.sides.x_low, options_.sides.x_high, halo_.wall_columns);
    scratch_ = MemoryBlock(MemorySpace::device,
                           detail::water_scratch_bytes(box[1].size(), box[2].size(), options_.precision));
    zero_bytes(scratch_.data(), MemorySpace::device, scratch_.bytes());
  }
  make_bed();
  const double level = options_.bathymetry.base + 1;
  set_state([&](Index j, Index i) { return WaterCell{level - bed_at(j, i), 0, 0}; });
}

double ShallowWater::bed_at(Index j, Index i) const {
  const Bathymetry& bed = options_.bathymetry;
  const double at_y = y(j), at_x = x(i);
  double elevation = bed.base;
  for (const GaussianHill& hill : bed.hills) {
    const double d_y = distance(at_y, hill.y, options_.length_y, options_.sides.y_low == WaterSide::periodic);
    const double d_x = distance(at_x, hill.x, options_.length_x, options_.sides.x_low == WaterSide::periodic);
    elevation += hill.height * std::exp(-(d_x * d_x + d_y * d_y) / (2 * hill.width * hill.width));
  }
  if (bed.given) elevation += bed.given(at_y, at_x);
  return elevation;
}

void ShallowWater::make_bed() {
  const Layout layout = layout_.with_extent(-1, 1);
  const Box& box = layout.local_box();
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(box.volume()));
  if (!box.is_empty()) {
    for (Index j = box[1].lo; j < box[1].hi; ++j) {
      for (Index i = box[2].lo; i < box[2].hi; ++i) {
        values.push_back(bed_at(j, i));
        if (!std::isfinite(values.back())) {
          fail(ExitCode::usage, kWhere, "bathymetry: found {} at cell ({}, {}), expected a finite number",
               values.back(), j, i);
        }
      }
    }
  }
  bed_ = Tensor::empty(layout, options_.precision);
  bed_.copy_from_host<double>(values);
  const ExchangePlan plan = padded_plan(layout, options_.sides);
  padded_bed_ = Tensor::empty(plan.destination_shape(), options_.precision);
  plan.forward(bed_.raw(), padded_bed_.raw(), options_.precision);
}

void ShallowWater::set_state(const Tensor& state, double time) {
  require(state.defined() && state.layout() == layout_, kWhere, "state of another layout, expected {}",
          to_string(layout_));
  state_.copy_from(state.dtype() == options_.precision ? state : state.to(options_.precision));
  time_ = time;
  steps_ = 0;
  last_dt_ = 0;
  rate_ = -1;
}

void ShallowWater::set_state(const std::function<WaterCell(Index j, Index i)>& cell, double time) {
  const Box& box = layout_.local_box();
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(box.volume()));
  if (!box.is_empty()) {
    for (Index j = box[1].lo; j < box[1].hi; ++j) {
      for (Index i = box[2].lo; i < box[2].hi; ++i) {
        const WaterCell c = cell(j, i);
        const bool dry = c.h <= 0;
        values.insert(values.end(), {dry ? 0 : c.h, dry ? 0 : c.hu, dry ? 0 : c.hv});
      }
    }
  }
  Tensor state = Tensor::empty(layout_, options_.precision);
  state.copy_from_host<double>(values);
  set_state(state, time);
}

Tensor ShallowWater::output(bool velocity, DType type) const {
  Tensor copy = state_.clone();
  if (velocity) {
    detail::momentum_to_velocity(copy.raw(), copy.local_count() / 3, options_.dry_depth, options_.precision);
  }
  return type == options_.precision ? copy : copy.to(type);
}

double ShallowWater::stage(const Tensor& from, const Tensor& old, const Tensor& to, double keep, double dt) {
  const auto motion_type = options_.precision;
  detail::WaterStage s;
  s.from = from.raw();
  s.ghosts = ghosts_.raw();
  s.bed = padded_bed_.raw();
  s.old = old.defined() ? old.raw() : nullptr;
  s.to = to.raw();
  s.scratch = scratch_.data();
  std::copy_n(halo_.wall_rows, 2, s.wall_rows);
  std::copy_n(halo_.wall_columns, 2, s.wall_columns);
  s.keep = keep;
  s.dt = dt;
  s.over_dx = 1 / dx();
  s.over_dy = 1 / dy();
  s.gravity = options_.gravity;
  s.theta = theta_of(options_.limiter);
  s.dry = options_.dry_depth;

  const bool empty = layout_.local_box().is_empty();
  s.ny = empty ? 0 : layout_.local_shape()[1];
  s.nx = empty ? 0 : layout_.local_shape()[2];
  const Range rows{0, s.ny}, columns{0, s.nx};
  const auto update = [&](Range r, Range c) {
    const OperatorTimer timer("water tendencies", false);
    return detail::run_water_stage(s, r, c, motion_type);
  };
  ExchangePlan::Motion motion = [&] {
    const HaloScope scope;
    return plan_.start(from.raw(), ghosts_.raw(), motion_type);
  }();
  const auto receive = [&] {
    const HaloScope scope;
    motion.finish();
  };
  if (plan_.is_local() || empty) {
    receive();
    return update(rows, columns);
  }
  // While ghosts travel, update the cells that need none of them.
  const auto inner = [&](Range all, int dim) {
    const int axis = layout_.mesh_axis_of(dim);
    if (axis < 0 || layout_.mesh().axis_size(axis) == 1) return all;
    const Index lo = std::min(kWaterGhosts, all.hi);
    return Range{lo, std::max(lo, all.hi - kWaterGhosts)};
  };
  const Range y = inner(rows, 1), x = inner(columns, 2);
  double rate = update(y, x);
  receive();
  const std::pair<Range, Range> frame[] = {
      {{0, y.lo}, columns}, {{y.hi, s.ny}, columns}, {y, {0, x.lo}}, {y, {x.hi, s.nx}}};
  for (const auto& [r, c] : frame) rate = std::max(rate, update(r, c));
  return rate;
}

double ShallowWater::fastest() const {
  detail::WaterStage s;
  s.over_dx = 1 / dx();
  s.over_dy = 1 / dy();
  s.gravity = options_.gravity;
  s.dry = options_.dry_depth;
  const double rate = detail::water_rate(state_.raw(), state_.local_count() / 3, s, options_.precision);
  return fastest_of(layout_.mesh().comm(), rate);
}

double ShallowWater::step(double until) {
  const double remaining = until - time_;
  if (!(remaining > 0)) return 0;
  if (rate_ < 0) rate_ = fastest();
  if (!std::isfinite(rate_)) fail_at_worst_cell(state_, 0);

  double dt = rate_ > 0 ? options_.cfl / rate_ : remaining;
  if (options_.max_time_step > 0) dt = std::min(dt, options_.max_time_step);
  if (dt < options_.min_time_step || !(time_ + dt > time_)) {
    fail(ExitCode::numerical, kWhere,
         "step {} at t = {} s: the time step collapsed to {} s, expected more than {} s", steps_ + 1, time_,
         dt, options_.min_time_step);
  }
  bool last = remaining <= dt;
  if (last) {
    dt = remaining;
  } else if (remaining < 2 * dt) {
    dt = remaining / 2;  // two equal steps rather than a tiny last one
  }
  for (int attempt = 1;; ++attempt) {
    stage(state_, {}, middle_, 0, dt);
    rate_ = fastest_of(layout_.mesh().comm(), stage(middle_, state_, next_, 0.5, dt));
    if (std::isfinite(rate_)) break;
    if (attempt == kAttempts) fail_at_worst_cell(next_, dt);
    dt /= 2;
    last = false;
  }
  std::swap(state_, next_);
  time_ = last ? until : time_ + dt;
  last_dt_ = dt;
  ++steps_;
  return dt;
}

void ShallowWater::advance_to(double until, const std::function<bool()>& after_step) {
  while (step(until) > 0) {
    if (after_step && !after_step()) return;
  }
}

void ShallowWater::fail_at_worst_cell(const Tensor& bad, double dt) const {
  const std::vector<double> values = bad.to_host<double>();
  const Box& box = layout_.local_box();
  constexpr Index none = std::numeric_limits<Index>::max();
  Index first = none;
  double cell[3] = {0, 0, 0};
  for (std::size_t at = 0; at < values.size() && first == none; at += 3) {
    const double h = values[at], hu = values[at + 1], hv = values[at + 2];
    if (h >= 0 && std::isfinite(h) && std::isfinite(hu) && std::isfinite(hv)) continue;
    const Index local = static_cast<Index>(at) / 3;
    first = (box[1].lo + local / box[2].size()) * options_.nx + box[2].lo + local % box[2].size();
    std::copy_n(&values[at], 3, cell);
  }
  Communicator& comm = layout_.mesh().comm();
  const std::vector<Index> all = comm.all_gather_value(first);
  const int rank = static_cast<int>(std::min_element(all.begin(), all.end()) - all.begin());
  const Index where = all[static_cast<std::size_t>(rank)];
  comm.broadcast(cell, 3, DType::f64, rank);
  require(where != none, kWhere, "step {}: an infinite rate, but no bad cell", steps_ + 1);
  fail(ExitCode::numerical, kWhere,
       "step {} at t = {} s (time step {} s), rank {}, cell ({}, {}): found depth {} m, momentum ({}, {}) "
       "m^2/s, expected a depth "
       ">= 0 and finite numbers",
       steps_ + 1, time_, dt, comm.world_rank(rank), where / options_.nx, where % options_.nx, cell[0],
       cell[1], cell[2]);
}

double ShallowWater::volume() const {
  double sum = detail::water_depth_sum(state_.raw(), state_.local_count() / 3, options_.precision);
  for (int a = 0; a < layout_.mesh().axes(); ++a) {
    if (layout_.placement(a).is_shard())
      sum = layout_.mesh().axis_comm(a).all_reduce_value(sum, ReduceOp::sum);
  }
  return sum * dx() * dy();
}

}  // namespace tessera
