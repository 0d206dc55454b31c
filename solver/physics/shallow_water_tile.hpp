#pragma once

#include "solver/physics/shallow_water_cells.hpp"

// The update of one tile: a piece of a row that walks down a block of rows, everything between the state and
// the new state in a scratch of lines.
namespace tessera::detail {

// Numbers of a vector register of 64 bytes.
template <typename Real>
inline constexpr Index kLanes = 64 / static_cast<Index>(sizeof(Real));
// Cells of a row updated together: with the ghost beside them, 8 whole vectors.
template <typename Real>
inline constexpr Index kTile = 8 * kLanes<Real> - kWaterGhosts;

// The next multiple of a vector: loops over scratch lines have no remainder.
template <typename Real>
KOKKOS_INLINE_FUNCTION Index whole(Index n) {
  return (n + kLanes<Real> - 1) & -kLanes<Real>;
}

// One number for each cell of a tile's row, cell 0 at a whole vector; ghosts before it, and room up to whole
// vectors behind the last ones.
template <typename Real>
struct Line {
  Real value[kTile<Real> + kWaterGhosts + 2 * kLanes<Real>];
  KOKKOS_INLINE_FUNCTION Real& operator[](Index i) { return value[kLanes<Real> + i]; }
  KOKKOS_INLINE_FUNCTION const Real& operator[](Index i) const { return value[kLanes<Real> + i]; }
};

template <typename Real>
struct Cells {
  Line<Real> h, e, u, v, hu, hv;  // depth, surface, velocities along x and y, momenta
};
template <typename Real>
struct Slopes {
  Line<Real> h, e, u, v;  // u: of the velocity along the axis
};
template <typename Real>
struct Faces {
  Line<Real> h_l, h_r, c_l, c_r, u_l, u_r, v_l, v_r, before, after;

  KOKKOS_INLINE_FUNCTION void put(Index i, const WaterFace<Real>& f) {
    h_l[i] = f.h_l, h_r[i] = f.h_r, c_l[i] = f.c_l, c_r[i] = f.c_r;
    u_l[i] = f.u_l, u_r[i] = f.u_r, v_l[i] = f.v_l, v_r[i] = f.v_r;
    before[i] = f.before, after[i] = f.after;
  }
  KOKKOS_INLINE_FUNCTION WaterFace<Real> get(Index i) const {
    return {h_l[i], h_r[i], c_l[i], c_r[i], u_l[i], u_r[i], v_l[i], v_r[i], before[i], after[i]};
  }
};
template <typename Real>
struct Fluxes {
  Line<Real> mass, before, after, tangential;

  KOKKOS_INLINE_FUNCTION void put(Index i, const WaterFlux<Real>& f) {
    mass[i] = f.mass, before[i] = f.before, after[i] = f.after, tangential[i] = f.tangential;
  }
};

// What a tile keeps while it walks down the rows; fits the first-level cache.
template <typename Real>
struct Scratch {
  Cells<Real> cells[4];      // padded row r in cells[r % 4]
  Slopes<Real> slopes_y[2];  // padded row r in slopes_y[r % 2]
  Slopes<Real> slopes_x;     // later the new state
  Faces<Real> faces;
  Fluxes<Real> fluxes_y[2];  // between padded rows r and r + 1 in fluxes_y[r % 2]
  Fluxes<Real> fluxes_x;     // face i lies before cell i
  Line<Real> rates;
};

// (cells, 3) <-> a line for each channel.
template <typename Real>
KOKKOS_INLINE_FUNCTION void split_channels(const Real* KOKKOS_RESTRICT q, Index cells,
                                           Real* KOKKOS_RESTRICT h, Real* KOKKOS_RESTRICT hu,
                                           Real* KOKKOS_RESTRICT hv) {
  for (Index i = 0; i < cells; ++i) {
    h[i] = q[3 * i];
    hu[i] = q[3 * i + 1];
    hv[i] = q[3 * i + 2];
  }
}
template <typename Real>
KOKKOS_INLINE_FUNCTION void join_channels(const Real* KOKKOS_RESTRICT h, const Real* KOKKOS_RESTRICT hu,
                                          const Real* KOKKOS_RESTRICT hv, Index cells,
                                          Real* KOKKOS_RESTRICT q) {
  for (Index i = 0; i < cells; ++i) {
    q[3 * i] = h[i];
    q[3 * i + 1] = hu[i];
    q[3 * i + 2] = hv[i];
  }
}

// Brings n numbers near, which the processor would not do by itself: a tile's rows lie far apart.
template <typename Real>
KOKKOS_INLINE_FUNCTION void fetch([[maybe_unused]] const Real* from, [[maybe_unused]] Index n) {
#if defined(__GNUC__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  for (Index i = 0; i < n; i += kLanes<Real>) __builtin_prefetch(from + i, 0, 2);
#endif
}
template <typename Real>
KOKKOS_INLINE_FUNCTION void fetch_to_write([[maybe_unused]] const Real* to, [[maybe_unused]] Index n) {
#if defined(__GNUC__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  for (Index i = 0; i < n; i += kLanes<Real>) __builtin_prefetch(to + i, 1, 2);
#endif
}

// One tile of a stage. Padded row r is row r - 2 of the box. What one loop writes another reads at shifted
// places only after a third one, when it has arrived in the cache.
template <typename Real>
struct Tile {
  const Real* from;
  const Real* ghosts;
  const Real* bed;
  const Real* old;
  Real* to;
  Scratch<Real>* s;
  Index ny, nx, first, width;  // box; first cell and number of cells of the tile
  Index wall_rows[2], wall_columns[2];
  WaterConstants<Real> k;

  KOKKOS_INLINE_FUNCTION Cells<Real>& cells(Index row) const { return s->cells[row & 3]; }

  KOKKOS_INLINE_FUNCTION void split(const Real* q, Index count, Cells<Real>& c, Index at) const {
    if (count > 0) split_channels(q, count, &c.h[at], &c.hu[at], &c.hv[at]);
  }
  // The state of a padded row, columns of the tile and two more on each side.
  KOKKOS_INLINE_FUNCTION void load_state(Index row, Cells<Real>& c) const {
    const Index g = kWaterGhosts, stride = nx + 2 * g, count = width + 2 * g;
    if (row < g || row >= ny + g)
      return split(ghosts + ((row < g ? row : row - ny) * stride + first) * 3, count, c, -g);
    const Index j = row - g, last = first + width;  // column i of the box is cell i - first of the tile
    const Index lo = larger<Index>(first - g, 0), hi = smaller(last + g, nx);
    const Real *left = ghosts + 2 * g * stride * 3, *right = left + ny * g * 3;
    split(left + (j * g + first) * 3, g - first, c, -g);
    split(from + (j * nx + lo) * 3, hi - lo, c, lo - first);
    split(right + (j * g + larger<Index>(first - g - nx, 0)) * 3, last + g - nx, c, nx - first);
  }

  // Beyond a wall the plan has put the mirrored cells; the velocity towards the wall changes its sign here.
  KOKKOS_INLINE_FUNCTION void load(Index row) const {
    const Index g = kWaterGhosts, stride = nx + 2 * g, end = width + g;
    Cells<Real>& c = cells(row);
    load_state(row, c);
    const Real* b = bed + row * stride + first + g;
    const bool beyond = row < wall_rows[0] || row >= ny + 2 * g - wall_rows[1];
    const Real sign = beyond ? Real(-1) : Real(1), dry = k.dry;
#pragma omp simd
    for (Index i = -g; i < end; ++i) {
      const Real depth = c.h[i];
      const bool wet = depth > dry;
      const Real over = 1 / (wet ? depth : Real(1));
      c.e[i] = depth + b[i];
      c.u[i] = wet ? c.hu[i] * over : Real(0);
      c.v[i] = wet ? sign * (c.hv[i] * over) : Real(0);
    }
    for (Index i = first; i < wall_columns[0]; ++i) c.u[i - first - g] = -c.u[i - first - g];
    for (Index i = larger(stride - wall_columns[1], first); i < first + width + 2 * g; ++i)
      c.u[i - first - g] = -c.u[i - first - g];
  }

  KOKKOS_INLINE_FUNCTION void slopes_y(Index row) const {
    const Cells<Real>&a = cells(row - 1), &b = cells(row), &c = cells(row + 1);
    Slopes<Real>& out = s->slopes_y[row & 1];
    const WaterConstants<Real> with = k;
    const Index end = whole<Real>(width);
#pragma omp simd
    for (Index i = 0; i < end; ++i) {
      out.h[i] = slope(a.h[i], b.h[i], c.h[i], with);
      out.e[i] = slope(a.e[i], b.e[i], c.e[i], with);
      out.u[i] = slope(a.v[i], b.v[i], c.v[i], with);
      out.v[i] = slope(a.u[i], b.u[i], c.u[i], with);
    }
  }

  // Between padded rows `row`, whose slopes are there, and row + 1, whose slopes are computed. In two loops,
  // for the latency of roots and division.
  KOKKOS_INLINE_FUNCTION void fluxes_y(Index row) const {
    slopes_y(row + 1);
    const Cells<Real>&a = cells(row), &b = cells(row + 1);
    const Slopes<Real>&l = s->slopes_y[row & 1], &r = s->slopes_y[(row + 1) & 1];
    Faces<Real>& faces = s->faces;
    const WaterConstants<Real> with = k;
    const Index end = whole<Real>(width);
#pragma omp simd
    for (Index i = 0; i < end; ++i) {
      faces.put(i, reconstruct<Real>({a.h[i], a.e[i], a.v[i], a.u[i], l.h[i], l.e[i], l.u[i], l.v[i]},
                                     {b.h[i], b.e[i], b.v[i], b.u[i], r.h[i], r.e[i], r.u[i], r.v[i]}, with));
    }
    solve_faces(s->fluxes_y[row & 1], end);
  }

  KOKKOS_INLINE_FUNCTION void slopes_x(Index row) const {
    const Cells<Real>& c = cells(row);
    Slopes<Real>& out = s->slopes_x;
    const WaterConstants<Real> with = k;
    const Index end = whole<Real>(width + 2) - 1;
#pragma omp simd
    for (Index i = -1; i < end; ++i) {
      out.h[i] = slope(c.h[i - 1], c.h[i], c.h[i + 1], with);
      out.e[i] = slope(c.e[i - 1], c.e[i], c.e[i + 1], with);
      out.u[i] = slope(c.u[i - 1], c.u[i], c.u[i + 1], with);
      out.v[i] = slope(c.v[i - 1], c.v[i], c.v[i + 1], with);
    }
  }

  KOKKOS_INLINE_FUNCTION void fluxes_x(Index row) const {
    const Cells<Real>& c = cells(row);
    const Slopes<Real>& t = s->slopes_x;
    Faces<Real>& faces = s->faces;
    const WaterConstants<Real> with = k;
    const Index end = whole<Real>(width + 1);
#pragma omp simd
    for (Index i = 0; i < end; ++i) {
      const Index l = i - 1;
      faces.put(i, reconstruct<Real>({c.h[l], c.e[l], c.u[l], c.v[l], t.h[l], t.e[l], t.u[l], t.v[l]},
                                     {c.h[i], c.e[i], c.u[i], c.v[i], t.h[i], t.e[i], t.u[i], t.v[i]}, with));
    }
    solve_faces(s->fluxes_x, end);
  }

  KOKKOS_INLINE_FUNCTION void solve_faces(Fluxes<Real>& out, Index end) const {
    const Faces<Real>& faces = s->faces;
    const WaterConstants<Real> with = k;
#pragma omp simd
    for (Index i = 0; i < end; ++i) out.put(i, flux(faces.get(i), with));
  }

  KOKKOS_INLINE_FUNCTION void update(Index row) const {
    const Index start = ((row - kWaterGhosts) * nx + first) * 3, end = whole<Real>(width);
    const Fluxes<Real>&x = s->fluxes_x, &lo = s->fluxes_y[(row - 1) & 1], &hi = s->fluxes_y[row & 1];
    const Cells<Real>& q = cells(row);
    Slopes<Real>& next = s->slopes_x;
    const WaterConstants<Real> with = k;
    if (old) split_channels(old + start, width, &next.h[0], &next.u[0], &next.v[0]);
    const Line<Real>&old_h = old ? next.h : q.h, &old_u = old ? next.u : q.hu, &old_v = old ? next.v : q.hv;
    const Real keep = k.keep, add = k.add, dt = k.dt, over_dx = k.over_dx, over_dy = k.over_dy;
    const Real dry = k.dry, tolerance = k.tolerance;
#pragma omp simd
    for (Index i = 0; i < end; ++i) {
      const Real dh = (x.mass[i + 1] - x.mass[i]) * over_dx + (hi.mass[i] - lo.mass[i]) * over_dy;
      const Real du =
          (x.before[i + 1] - x.after[i]) * over_dx + (hi.tangential[i] - lo.tangential[i]) * over_dy;
      const Real dv =
          (x.tangential[i + 1] - x.tangential[i]) * over_dx + (hi.before[i] - lo.after[i]) * over_dy;
      Real h = fused(add, fused(-dt, dh, q.h[i]), keep * old_h[i]);
      Real hu = fused(add, fused(-dt, du, q.hu[i]), keep * old_u[i]);
      Real hv = fused(add, fused(-dt, dv, q.hv[i]), keep * old_v[i]);
      h = (h < 0) & (h >= -tolerance) ? Real(0) : h;
      const bool still = h <= dry;  // false for NaN, which therefore stays
      hu = still ? Real(0) : hu;
      hv = still ? Real(0) : hv;
      next.h[i] = h;
      next.u[i] = hu;
      next.v[i] = hv;
    }
    join_channels(&next.h[0], &next.u[0], &next.v[0], width, to + start);
    if (!old)
      return;  // the state between the stages sets no time step, and what is wrong with it shows in the next
    Line<Real>& rates = s->rates;
#pragma omp simd
    for (Index i = 0; i < end; ++i) rates[i] = larger(rates[i], with.rate(next.h[i], next.u[i], next.v[i]));
  }

  // Local rows [lo, hi) of the box; returns the largest rate.
  KOKKOS_INLINE_FUNCTION Real run(Index lo, Index hi) const {
    for (Index i = 0; i < width; ++i) s->rates[i] = 0;
    const Index g = kWaterGhosts;
    for (Index row = lo; row < lo + 2 * g; ++row) load(row);
    slopes_y(lo + g - 1);
    fluxes_y(lo + g - 1);
    for (Index row = lo + g; row < hi + g; ++row) {
      const Index count = row + 1 < hi + g ? width : 0;  // of the row after this one
      const Index ahead = row + 1 < ny ? count : 0;      // of the row of the box that is loaded with it
      const Index next = (row + 1 - g) * nx + first;
      slopes_x(row);
      load(row + g);
      fetch(from + (next + g * nx) * 3, 3 * ahead);
      fluxes_x(row);
      fetch(bed + (row + 1 + g) * (nx + 2 * g) + first, count);
      if (old) fetch(old + next * 3, 3 * count);
      fluxes_y(row);
      fetch_to_write(to + next * 3, 3 * count);
      update(row);
    }
    Real best = 0;
    for (Index i = 0; i < width; ++i) best = larger(best, s->rates[i]);
    return best;
  }
};

}  // namespace tessera::detail
