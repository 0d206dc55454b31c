#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/exchange_plan.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera {

/// What a side of the basin does with the water.
enum class WaterSide : std::uint8_t {
  periodic,  ///< joined to the opposite side, which must be periodic too
  wall,      ///< reflects: no flow through it
  open,      ///< lets waves out: zero gradient
};

struct WaterSides {
  WaterSide y_low = WaterSide::periodic;
  WaterSide y_high = WaterSide::periodic;
  WaterSide x_low = WaterSide::periodic;
  WaterSide x_high = WaterSide::periodic;
};

/// Limiter of the slopes: the smallest of theta |a|, theta |b|, |a + b| / 2 of the two one-sided differences
/// a, b.
enum class SlopeLimiter : std::uint8_t {
  none,     ///< theta 0: no slopes, first order
  minmod,   ///< theta 1: most diffusive second-order scheme
  middle,   ///< theta 1.5
  central,  ///< theta 2: monotonised central differences
};

/// height * exp(-|r - (y, x)|^2 / (2 width^2)); along periodic axes the nearest image counts. Metres.
struct GaussianHill {
  double height = 0;
  double y = 0;
  double x = 0;
  double width = 1;
};

/// Elevation of the bed above the datum (m): base + hills + given(y, x).
struct Bathymetry {
  double base = 0;
  std::vector<GaussianHill> hills;
  std::function<double(double y, double x)> given;  ///< optional; must be the same function on every rank
};

struct ShallowWaterOptions {
  Index ny = 0;  ///< cells
  Index nx = 0;
  double length_y = 1;    ///< m
  double length_x = 1;    ///< m
  double gravity = 9.81;  ///< m/s^2
  Bathymetry bathymetry;
  WaterSides sides;
  double cfl = 0.45;  ///< (0, 1]; the depth stays positive without repeated steps up to 0.5
  SlopeLimiter limiter = SlopeLimiter::middle;
  double dry_depth = 1e-6;       ///< m; shallower water does not move
  double max_time_step = 0;      ///< s; 0: none
  double min_time_step = 0;      ///< s; below it the run ends with an error; 0: round-off of the time
  DType precision = DType::f64;  ///< f64 or f32
};

/// Throws (usage) and names the option that is out of range.
void validate(const ShallowWaterOptions& options);

/// Water in one cell: depth (m) and momentum per density (m^2/s).
struct WaterCell {
  double h = 0;
  double hu = 0;  ///< along x
  double hv = 0;  ///< along y
};

/// One output field: which channels of `ShallowWater::output` it takes. A vector's components follow
/// `components`.
struct WaterField {
  std::string name;
  std::string unit;
  int channel = 0;
  std::vector<std::string> components;  ///< empty: a scalar (The Well's t0 fields); {"x", "y"}: a vector (t1)
};

/// Channels of an output: height, and momentum or velocity.
std::vector<WaterField> shallow_water_fields(bool velocity);

/// Shallow water in two dimensions on a uniform grid:
///
///     h_t    + (hu)_x + (hv)_y = 0
///     (hu)_t + (hu u + g h^2 / 2)_x + (hu v)_y = -g h b_x        b: bed
///     (hv)_t + (hv u)_x + (hv v + g h^2 / 2)_y = -g h b_y
///
/// Finite volumes of second order: limited slopes of depth, surface, velocities; hydrostatic reconstruction
/// (Audusse, Bouchut, Bristeau, Klein, Perthame, SIAM J. Sci. Comput. 25, 2004), which keeps a lake at rest
/// over any bed; HLLC flux with the wave speeds of Fraccarollo and Toro (J. Hydraul. Res. 33, 1995); Heun's
/// strong-stability-preserving Runge-Kutta step. The state is a shard tensor (1, ny, nx, 3) of channels h,
/// hu, hv; ghost cells travel through one ExchangePlan. Every cell's arithmetic is the same whatever box it
/// lies in, so results are bitwise equal on any ranks and cut points.
class ShallowWater {
 public:
  /// Layout of (1, ny, nx, 3): Shard on dimensions 1 and 2 only, other mesh axes Replicate (each computes the
  /// same). Collective. Starts as a lake at rest with the surface at the bed's base + 1 m, time 0.
  ShallowWater(ShallowWaterOptions options, Layout layout);

  const ShallowWaterOptions& options() const { return options_; }
  const Layout& layout() const { return layout_; }
  double dx() const { return options_.length_x / static_cast<double>(options_.nx); }
  double dy() const { return options_.length_y / static_cast<double>(options_.ny); }
  /// Centre of a cell.
  double x(Index i) const { return (static_cast<double>(i) + 0.5) * dx(); }
  double y(Index j) const { return (static_cast<double>(j) + 0.5) * dy(); }
  /// Elevation of the bed, (1, ny, nx, 1), in the solver's precision, and at one cell.
  const Tensor& bed() const { return bed_; }
  double bed_at(Index j, Index i) const;

  /// (1, ny, nx, 3): h, hu, hv. Valid until the next step; change it through set_state only.
  const Tensor& state() const { return state_; }
  /// Copies a state of the same layout (any floating type), and sets the clock.
  void set_state(const Tensor& state, double time = 0);
  /// Every rank evaluates `cell(j, i)` for its own cells, global indices. Negative depths become 0.
  void set_state(const std::function<WaterCell(Index j, Index i)>& cell, double time = 0);
  /// A copy of the state for output, channels as in shallow_water_fields(velocity). Velocity is 0 where it is
  /// dry.
  Tensor output(bool velocity, DType type) const;

  double time() const { return time_; }   ///< s
  Index steps() const { return steps_; }  ///< since construction or set_state
  double last_time_step() const { return last_dt_; }

  /// One step of at most the CFL limit that does not pass `until`; returns its length, 0 if time() >= until.
  /// Collective. A step that leaves a depth negative is repeated with half its length. Throws (numerical), on
  /// every rank the same, with step, time, rank and cell, if a value is not finite, a depth stays negative,
  /// or the time step collapses.
  double step(double until);
  /// Steps until time() == until exactly; after each one `after_step` may stop it by returning false (the
  /// same on every rank).
  void advance_to(double until, const std::function<bool()>& after_step = {});

  /// Sum of h dx dy over the basin (m^3). Collective; differs by round-off between partitions.
  double volume() const;

 private:
  struct Halo {
    Index wall_rows[2] = {0, 0};     // ghost rows beyond a wall, below and above
    Index wall_columns[2] = {0, 0};  // and columns
  };

  void make_bed();
  double fastest() const;
  // One Runge-Kutta stage: to = keep * old + (1 - keep) * (from + dt L(from)); `to` is not `from`. Returns
  // the rate of `to`, infinite if it is bad.
  double stage(const Tensor& from, const Tensor& old, const Tensor& to, double keep, double dt);
  [[noreturn]] void fail_at_worst_cell(const Tensor& bad, double dt) const;

  ShallowWaterOptions options_;
  Layout layout_;
  ExchangePlan plan_;             // box (1, ny, nx, 3) -> two ghost cells around it, as WaterStage wants them
  Tensor state_, middle_, next_;  // (1, ny, nx, 3): before, between and after the stages of a step
  Tensor ghosts_;                 // plain
  Tensor bed_;                    // (1, ny, nx, 1)
  Tensor padded_bed_;             // plain (1, ny + 4, nx + 4, 1)
  MemoryBlock scratch_;
  Halo halo_;
  double time_ = 0;
  double last_dt_ = 0;
  Index steps_ = 0;
  double rate_ = -1;  // largest (|u| + c) / dx + (|v| + c) / dy over all ranks (1/s); negative: not known
};

}  // namespace tessera
