// Compiled without contraction to fused multiply-adds: a cell then gets the same bits in the vector body and
// in the remainder of a loop, hence on every partition.
//
// Bytes moved per cell and step in f64, each array counted once per stage:
//     exchange      2 x (24 read, 24 written)
//     first stage   24 + 8 read, 24 written
//     second stage  24 + 8 + 24 read, 24 written         232 in all: kWaterNumbersMoved x 8
// What lies between stays in a scratch of about 70 KiB per tile.
#include "solver/physics/shallow_water_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Kokkos_Core.hpp>

#include "parallel/error.hpp"

namespace tessera::detail {
namespace {

constexpr Index kTile = 256;       // cells of a row updated together
constexpr Index kRow = kTile + 8;  // tile, ghosts, and room up to whole vectors
constexpr int kPrimitives = 4;     // depth, surface, velocity along x, velocity along y
constexpr int kFluxes =
    4;  // mass; normal momentum for the cell before and after the face; tangential momentum
// Four rows of primitives; fluxes below and above the row and between its cells; two rows of states; rates.
constexpr Index kScratchRows = 4 * kPrimitives + 3 * kFluxes + 2 * 3 + 1;

// Of two values, neither of them a signed zero that matters. Written as a comparison, which vectorises.
template <typename Real>
KOKKOS_INLINE_FUNCTION Real smaller(Real a, Real b) {
  return a < b ? a : b;
}
template <typename Real>
KOKKOS_INLINE_FUNCTION Real larger(Real a, Real b) {
  return a > b ? a : b;
}

template <typename Real>
struct Primitives {
  const Real *depth, *surface, *normal, *tangential;
};

// One row of a state, channel by channel.
template <typename Real>
struct States {
  Real *h, *hu, *hv;
};

template <typename Real>
KOKKOS_INLINE_FUNCTION void split_channels(const Real* from, const States<Real>& to, Index cells) {
  for (Index i = 0; i < cells; ++i) {
    to.h[i] = from[3 * i];
    to.hu[i] = from[3 * i + 1];
    to.hv[i] = from[3 * i + 2];
  }
}

template <typename Real>
KOKKOS_INLINE_FUNCTION void join_channels(const States<Real>& from, Real* to, Index cells) {
  for (Index i = 0; i < cells; ++i) {
    to[3 * i] = from.h[i];
    to[3 * i + 1] = from.hu[i];
    to[3 * i + 2] = from.hv[i];
  }
}

template <typename Real>
struct Fluxes {
  Real *mass, *before, *after, *tangential;
};

template <typename Real>
struct Constants {
  explicit Constants(const WaterStage& s, DType type)
      : keep(static_cast<Real>(s.keep)),
        add(static_cast<Real>(1 - s.keep)),
        dt(static_cast<Real>(s.dt)),
        over_dx(static_cast<Real>(s.over_dx)),
        over_dy(static_cast<Real>(s.over_dy)),
        gravity(static_cast<Real>(s.gravity)),
        half_theta(static_cast<Real>(s.theta / 2)),
        dry(static_cast<Real>(s.dry)),
        tolerance(static_cast<Real>(water_depth_tolerance(s.dry, type))) {}

  // (|u| + c) / dx + (|v| + c) / dy of a cell; infinite if its depth is negative or a value not finite.
  KOKKOS_INLINE_FUNCTION Real rate(Real h, Real hu, Real hv) const {
    constexpr Real most = std::numeric_limits<Real>::max();
    const bool bad = !(h >= 0) | !(h <= most) | !(std::abs(hu) <= most) | !(std::abs(hv) <= most);
    const Real over = 1 / (h > dry ? h : Real(1)), c = std::sqrt(gravity * larger(h, Real(0)));
    const Real s = (std::abs(hu * over) + c) * over_dx + (std::abs(hv * over) + c) * over_dy;
    return bad ? std::numeric_limits<Real>::infinity() : s;
  }

  Real keep, add, dt, over_dx, over_dy, gravity, half_theta, dry, tolerance;
};

// Half the limited slope of b between its neighbours.
template <typename Real>
KOKKOS_INLINE_FUNCTION Real half_slope(Real a, Real b, Real c, Real half_theta) {
  const Real p = b - a, q = c - b;
  const Real least = half_theta * smaller(std::abs(p), std::abs(q));
  const Real size = smaller(least, Real(0.25) * std::abs(p + q));
  return p * q > 0 ? std::copysign(size, p) : Real(0);
}

// Fluxes through `faces` faces; face f lies between b[f] and c[f], and a, d are the cells next to those.
//
// The hydrostatic terms of a cell's two faces add up to Audusse's centred source: before = flux + g/2 (h^2 -
// h*^2) + g h_cell (b_face - b_cell), h and b_face being this cell's reconstruction at the face and h* the
// depth over the higher of both beds.
template <typename Real>
KOKKOS_INLINE_FUNCTION void face_fluxes(const Primitives<Real>& a, const Primitives<Real>& b,
                                        const Primitives<Real>& c, const Primitives<Real>& d,
                                        const Fluxes<Real>& out, Index faces, const Constants<Real>& k) {
  const Real g = k.gravity, half_g = k.gravity / 2, theta = k.half_theta, dry = k.dry;
#pragma omp simd
  for (Index f = 0; f < faces; ++f) {
    const Real slope_h_l = half_slope(a.depth[f], b.depth[f], c.depth[f], theta);
    const Real slope_h_r = half_slope(b.depth[f], c.depth[f], d.depth[f], theta);
    const Real slope_e_l = half_slope(a.surface[f], b.surface[f], c.surface[f], theta);
    const Real slope_e_r = half_slope(b.surface[f], c.surface[f], d.surface[f], theta);
    const Real u_l = b.normal[f] + half_slope(a.normal[f], b.normal[f], c.normal[f], theta);
    const Real u_r = c.normal[f] - half_slope(b.normal[f], c.normal[f], d.normal[f], theta);
    const Real v_l = b.tangential[f] + half_slope(a.tangential[f], b.tangential[f], c.tangential[f], theta);
    const Real v_r = c.tangential[f] - half_slope(b.tangential[f], c.tangential[f], d.tangential[f], theta);

    // Depth, bed, and depth over the higher bed, on both sides of the face.
    const Real h_l = b.depth[f] + slope_h_l, h_r = c.depth[f] - slope_h_r;
    const Real bed_l = (b.surface[f] + slope_e_l) - h_l, bed_r = (c.surface[f] - slope_e_r) - h_r;
    const Real bed = larger(bed_l, bed_r);
    const Real hs_l = larger(h_l + (bed_l - bed), Real(0)), hs_r = larger(h_r + (bed_r - bed), Real(0));

    // Speeds of the outer waves; towards a dry side the front runs at u + 2 c.
    const Real c_l = std::sqrt(g * hs_l), c_r = std::sqrt(g * hs_r);
    const Real w_l = hs_l > dry ? u_l : u_r - 2 * c_r;
    const Real w_r = hs_r > dry ? u_r : u_l + 2 * c_l;
    const Real u_star = Real(0.5) * (w_l + w_r) + (c_l - c_r);
    const Real c_star = larger(Real(0.5) * (c_l + c_r) + Real(0.25) * (w_l - w_r), Real(0));
    const Real s_l = smaller(smaller(u_l - c_l, u_star - c_star), Real(0));
    const Real s_r = larger(larger(u_r + c_r, u_star + c_star), Real(0));

    const Real q_l = hs_l * u_l, q_r = hs_r * u_r;
    const Real m_l = q_l * u_l + half_g * (hs_l * hs_l), m_r = q_r * u_r + half_g * (hs_r * hs_r);
    const Real over = 1 / larger(s_r - s_l, Real(1e-30)), product = s_l * s_r;
    const Real mass = ((s_r * q_l - s_l * q_r) + product * (hs_r - hs_l)) * over;
    const Real momentum = ((s_r * m_l - s_l * m_r) + product * (q_r - q_l)) * over;
    out.mass[f] = mass;
    out.before[f] =
        momentum + (half_g * (h_l * h_l - hs_l * hs_l) + g * b.depth[f] * (slope_e_l - slope_h_l));
    out.after[f] = momentum + (half_g * (h_r * h_r - hs_r * hs_r) - g * c.depth[f] * (slope_e_r - slope_h_r));
    out.tangential[f] = mass * (mass >= 0 ? v_l : v_r);
  }
}

// One tile of a stage: walks down the rows with a ring of four rows of primitives and the fluxes below and
// above the row.
template <typename Real>
struct Tile {
  const Real* padded;
  const Real* bed;
  const Real* old;
  Real* to;
  Real* scratch;
  Index ny, nx, first, width;  // box; first cell and number of cells of the tile
  Index wall_rows[2], wall_columns[2];
  Constants<Real> k;

  KOKKOS_INLINE_FUNCTION Real* primitive(Index row, int which) const {
    return scratch + ((row & 3) * kPrimitives + which) * kRow;
  }
  KOKKOS_INLINE_FUNCTION Real* flux(int set, int which) const {
    return scratch + (4 * kPrimitives + set * kFluxes + which) * kRow;
  }
  KOKKOS_INLINE_FUNCTION Fluxes<Real> fluxes(int set) const {
    return {flux(set, 0), flux(set, 1), flux(set, 2), flux(set, 3)};
  }
  KOKKOS_INLINE_FUNCTION States<Real> states(int set) const {
    Real* base = flux(3, 0) + set * 3 * kRow;
    return {base, base + kRow, base + 2 * kRow};
  }
  KOKKOS_INLINE_FUNCTION Real* rates() const { return flux(3, 0) + 6 * kRow; }
  KOKKOS_INLINE_FUNCTION Primitives<Real> along_x(Index row, Index shift) const {
    return {primitive(row, 0) + shift, primitive(row, 1) + shift, primitive(row, 2) + shift,
            primitive(row, 3) + shift};
  }
  KOKKOS_INLINE_FUNCTION Primitives<Real> along_y(Index row) const {
    const Index g = kWaterGhosts;
    return {primitive(row, 0) + g, primitive(row, 1) + g, primitive(row, 3) + g, primitive(row, 2) + g};
  }

  // Primitives of padded row `row`, columns of the tile and two more on each side. Beyond a wall the plan has
  // put the mirrored cells; the velocity towards the wall changes its sign here.
  KOKKOS_INLINE_FUNCTION void load(Index row) const {
    const Index stride = nx + 2 * kWaterGhosts, count = width + 2 * kWaterGhosts;
    const Real* q = padded + (row * stride + first) * 3;
    const Real* b = bed + row * stride + first;
    Real *h = primitive(row, 0), *e = primitive(row, 1), *u = primitive(row, 2), *v = primitive(row, 3);
    const bool beyond = row < wall_rows[0] || row >= ny + 2 * kWaterGhosts - wall_rows[1];
    const Real sign = beyond ? Real(-1) : Real(1);
    const Real dry = k.dry;
    const States<Real> state = states(0);
    split_channels(q, state, count);
#pragma omp simd
    for (Index i = 0; i < count; ++i) {
      const Real depth = state.h[i];
      const bool wet = depth > dry;
      const Real over = 1 / (wet ? depth : Real(1));
      h[i] = depth;
      e[i] = depth + b[i];
      u[i] = wet ? state.hu[i] * over : Real(0);
      v[i] = wet ? sign * (state.hv[i] * over) : Real(0);
    }
    for (Index i = first; i < wall_columns[0]; ++i) u[i - first] = -u[i - first];
    for (Index i = stride - wall_columns[1]; i < first + count; ++i) {
      if (i >= first) u[i - first] = -u[i - first];
    }
  }

  KOKKOS_INLINE_FUNCTION void fluxes_above(Index row, int set) const {
    face_fluxes(along_y(row - 1), along_y(row), along_y(row + 1), along_y(row + 2), fluxes(set), width, k);
  }

  KOKKOS_INLINE_FUNCTION void update(Index row, int below, int above) const {
    face_fluxes(along_x(row, 0), along_x(row, 1), along_x(row, 2), along_x(row, 3), fluxes(2), width + 1, k);
    const Fluxes<Real> x = fluxes(2), lo = fluxes(below), hi = fluxes(above);
    const Index g = kWaterGhosts, start = ((row - g) * nx + first) * 3;
    const States<Real> q = states(0), previous = old ? states(1) : q;
    split_channels(padded + (row * (nx + 2 * g) + first + g) * 3, q, width);
    if (old) split_channels(old + start, previous, width);
    const Real keep = k.keep, add = k.add, dt = k.dt, over_dx = k.over_dx, over_dy = k.over_dy;
    const Real dry = k.dry, tolerance = k.tolerance;
#pragma omp simd
    for (Index i = 0; i < width; ++i) {
      const Real dh = (x.mass[i + 1] - x.mass[i]) * over_dx + (hi.mass[i] - lo.mass[i]) * over_dy;
      const Real du =
          (x.before[i + 1] - x.after[i]) * over_dx + (hi.tangential[i] - lo.tangential[i]) * over_dy;
      const Real dv =
          (x.tangential[i + 1] - x.tangential[i]) * over_dx + (hi.before[i] - lo.after[i]) * over_dy;
      Real h = keep * previous.h[i] + add * (q.h[i] - dt * dh);
      Real hu = keep * previous.hu[i] + add * (q.hu[i] - dt * du);
      Real hv = keep * previous.hv[i] + add * (q.hv[i] - dt * dv);
      h = (h < 0) & (h >= -tolerance) ? Real(0) : h;
      const bool still = h <= dry;  // false for NaN, which therefore stays
      hu = still ? Real(0) : hu;
      hv = still ? Real(0) : hv;
      q.h[i] = h;
      q.hu[i] = hu;
      q.hv[i] = hv;
    }
    join_channels(q, to + start, width);
    Real* rate = rates();
    if (!old)
      return;  // the state between the stages sets no time step, and what is wrong with it shows in the next
#pragma omp simd
    for (Index i = 0; i < width; ++i) rate[i] = larger(rate[i], k.rate(q.h[i], q.hu[i], q.hv[i]));
  }

  // Local rows [lo, hi) of the box; returns the largest rate.
  KOKKOS_INLINE_FUNCTION Real run(Index lo, Index hi) const {
    Real* rate = rates();
    for (Index i = 0; i < width; ++i) rate[i] = 0;
    const Index g = kWaterGhosts;
    for (Index row = lo; row < lo + 2 * g; ++row) load(row);
    int below = 0;
    fluxes_above(lo + g - 1, below);
    for (Index row = lo + g; row < hi + g; ++row) {
      load(row + g);
      fluxes_above(row, 1 - below);
      update(row, below, 1 - below);
      below = 1 - below;
    }
    Real best = 0;
    for (Index i = 0; i < width; ++i) best = larger(best, rate[i]);
    return best;
  }
};

// Row blocks x tiles of a region: as many blocks as there are threads to run them.
struct Blocks {
  Index tiles, blocks;
};
Blocks blocks_of(Index rows, Index columns) {
  const Index tiles = (columns + kTile - 1) / kTile;
  const Index threads = Kokkos::DefaultExecutionSpace().concurrency();
  return {tiles,
          std::clamp<Index>((threads + tiles - 1) / std::max<Index>(tiles, 1), 1, std::max<Index>(rows, 1))};
}

template <typename Real>
double run_stage(const WaterStage& stage, Range rows, Range columns, DType type) {
  const Blocks split = blocks_of(rows.size(), columns.size());
  const Tile<Real> prototype{static_cast<const Real*>(stage.padded),
                             static_cast<const Real*>(stage.bed),
                             static_cast<const Real*>(stage.old),
                             static_cast<Real*>(stage.to),
                             static_cast<Real*>(stage.scratch),
                             stage.ny,
                             stage.nx,
                             0,
                             0,
                             {stage.wall_rows[0], stage.wall_rows[1]},
                             {stage.wall_columns[0], stage.wall_columns[1]},
                             Constants<Real>(stage, type)};
  double fastest = 0;
  Kokkos::parallel_reduce(
      "shallow_water_stage", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, split.blocks * split.tiles),
      KOKKOS_LAMBDA(Index item, double& best) {
        Tile<Real> tile = prototype;
        const Index block = item / split.tiles, at = item % split.tiles;
        tile.first = columns.lo + at * kTile;
        tile.width = smaller(kTile, columns.hi - tile.first);
        tile.scratch += item * kScratchRows * kRow;
        const Index height = rows.hi - rows.lo;
        const Index lo = rows.lo + height * block / split.blocks,
                    hi = rows.lo + height * (block + 1) / split.blocks;
        best = larger(best, static_cast<double>(tile.run(lo, hi)));
      },
      Kokkos::Max<double>(fastest));
  return std::max(fastest, 0.0);
}

template <typename Real>
double rate_of(const Real* state, Index cells, const Constants<Real> k) {
  double fastest = 0;
  Kokkos::parallel_reduce(
      "shallow_water_rate", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, cells),
      KOKKOS_LAMBDA(Index i, double& best) {
        best = larger(best, static_cast<double>(k.rate(state[3 * i], state[3 * i + 1], state[3 * i + 2])));
      },
      Kokkos::Max<double>(fastest));
  return std::max(fastest, 0.0);
}

template <typename Real>
void to_velocity(Real* state, Index cells, Real dry) {
  Kokkos::parallel_for(
      "shallow_water_velocity", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, cells),
      KOKKOS_LAMBDA(Index i) {
        const Real h = state[3 * i];
        state[3 * i + 1] = h <= dry ? Real(0) : state[3 * i + 1] / h;
        state[3 * i + 2] = h <= dry ? Real(0) : state[3 * i + 2] / h;
      });
}

template <typename Real>
double depth_sum(const Real* state, Index cells) {
  double sum = 0;
  Kokkos::parallel_reduce(
      "shallow_water_volume", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, cells),
      KOKKOS_LAMBDA(Index i, double& part) { part += static_cast<double>(state[3 * i]); }, sum);
  return sum;
}

}  // namespace

double water_depth_sum(const void* state, Index cells, DType type) {
  if (cells == 0) return 0;
  return type == DType::f64 ? depth_sum(static_cast<const double*>(state), cells)
                            : depth_sum(static_cast<const float*>(state), cells);
}

double water_depth_tolerance(double dry, DType type) {
  return type == DType::f64 ? 1e-3 * dry : dry;
}

std::size_t water_scratch_bytes(Index ny, Index nx, DType type) {
  if (ny == 0 || nx == 0) return 0;
  const Index tiles = blocks_of(ny, nx).tiles;
  // A region of the box may be cut otherwise, but into no more pieces than this.
  const Index items = std::min<Index>(tiles * ny, tiles + Kokkos::DefaultExecutionSpace().concurrency());
  return static_cast<std::size_t>(items * kScratchRows * kRow) * size_of(type);
}

double run_water_stage(const WaterStage& stage, Range rows, Range columns, DType type) {
  if (rows.empty() || columns.empty()) return 0;
  return type == DType::f64 ? run_stage<double>(stage, rows, columns, type)
                            : run_stage<float>(stage, rows, columns, type);
}

double water_rate(const void* state, Index cells, const WaterStage& constants, DType type) {
  if (cells == 0) return 0;
  return type == DType::f64
             ? rate_of(static_cast<const double*>(state), cells, Constants<double>(constants, type))
             : rate_of(static_cast<const float*>(state), cells, Constants<float>(constants, type));
}

void momentum_to_velocity(void* state, Index cells, double dry, DType type) {
  if (cells == 0) return;
  if (type == DType::f64) return to_velocity(static_cast<double*>(state), cells, dry);
  to_velocity(static_cast<float*>(state), cells, static_cast<float>(dry));
}

}  // namespace tessera::detail
