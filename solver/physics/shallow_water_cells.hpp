#pragma once

#include <cmath>
#include <limits>

#include <Kokkos_Core.hpp>

#include "solver/physics/shallow_water_kernels.hpp"

// The arithmetic of one cell and of one face. Every expression gives mirrored results for mirrored arguments,
// bit by bit; products are fused with sums only where that holds and is written out, so that a cell gets the
// same bits in every version of a loop.
namespace tessera::detail {

// Of two values, neither of them a signed zero that matters. Written as a comparison, which vectorises.
template <typename Real>
KOKKOS_INLINE_FUNCTION Real smaller(Real a, Real b) {
  return a < b ? a : b;
}
template <typename Real>
KOKKOS_INLINE_FUNCTION Real larger(Real a, Real b) {
  return a > b ? a : b;
}

// a * b + c, rounded once where the processor does so in one instruction.
template <typename Real>
KOKKOS_INLINE_FUNCTION Real fused(Real a, Real b, Real c) {
#if defined(FP_FAST_FMA) && defined(FP_FAST_FMAF)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <typename Real>
struct WaterConstants {
  explicit WaterConstants(const WaterStage& s, DType type)
      : keep(static_cast<Real>(s.keep)),
        add(static_cast<Real>(1 - s.keep)),
        dt(static_cast<Real>(s.dt)),
        over_dx(static_cast<Real>(s.over_dx)),
        over_dy(static_cast<Real>(s.over_dy)),
        gravity(static_cast<Real>(s.gravity)),
        steepest(static_cast<Real>(2 * s.theta)),
        dry(static_cast<Real>(s.dry)),
        tolerance(static_cast<Real>(water_depth_tolerance(s.dry, type))),
        zero(static_cast<Real>(s.dry - s.dry)) {}

  // (|u| + c) / dx + (|v| + c) / dy of a cell; infinite if its depth is negative or a value not finite.
  KOKKOS_INLINE_FUNCTION Real rate(Real h, Real hu, Real hv) const {
    constexpr Real most = std::numeric_limits<Real>::max();
    const bool bad = !(h >= 0) | !(h <= most) | !(std::abs(hu) <= most) | !(std::abs(hv) <= most);
    const Real over = 1 / (h > dry ? h : Real(1)), c = std::sqrt(gravity * larger(h, zero));
    const Real s = (std::abs(hu * over) + c) * over_dx + (std::abs(hv * over) + c) * over_dy;
    return bad ? std::numeric_limits<Real>::infinity() : s;
  }

  Real keep, add, dt, over_dx, over_dy, gravity;
  Real steepest;  // 2 theta of the limiter
  Real dry, tolerance;
  Real zero;  // not known to the compiler, which would make two instructions of a maximum with a literal 0
};

// Four times the change of a value from the middle of cell b to its faces: half the limited slope, which is
// the smallest of theta |b - a|, theta |c - b|, |c - a| / 2, or 0 where b is an extremum. One of `up` and
// `down` is 0.
template <typename Real>
KOKKOS_INLINE_FUNCTION Real slope(Real a, Real b, Real c, const WaterConstants<Real>& k) {
  const Real p = b - a, q = c - b;
  const Real up = larger(smaller(p, q), k.zero), down = smaller(larger(p, q), k.zero);
  return larger(smaller(p + q, k.steepest * up), k.steepest * down);
}

// A cell beside a face: depth, surface, velocities normal and tangential to the face, and their slopes.
template <typename Real>
struct WaterSideOfFace {
  Real h, e, u, v;
  Real slope_h, slope_e, slope_u, slope_v;
};

// Values on the left and right of a face: depths over the higher of both beds, speeds of waves, velocities;
// and the hydrostatic part of the momentum flux for the cell before and after the face.
template <typename Real>
struct WaterFace {
  Real h_l, h_r, c_l, c_r, u_l, u_r, v_l, v_r;
  Real before, after;
};

// The hydrostatic terms of a cell's two faces add up to Audusse's centred source: before = g/2 (h^2 - h*^2) +
// g h_cell (b_face - b_cell), h and b_face being this cell's reconstruction at the face and h* the depth over
// the higher of both beds.
template <typename Real>
KOKKOS_INLINE_FUNCTION WaterFace<Real> reconstruct(const WaterSideOfFace<Real>& l,
                                                   const WaterSideOfFace<Real>& r,
                                                   const WaterConstants<Real>& k) {
  constexpr auto quarter = Real(0.25);
  const Real g = k.gravity, half_g = k.gravity / 2, quarter_g = k.gravity / 4;
  const Real h_l = fused(quarter, l.slope_h, l.h), h_r = fused(-quarter, r.slope_h, r.h);
  const Real bed_l = fused(quarter, l.slope_e, l.e) - h_l, bed_r = fused(-quarter, r.slope_e, r.e) - h_r;
  const Real bed = larger(bed_l, bed_r);
  WaterFace<Real> face;
  face.h_l = larger(h_l + (bed_l - bed), k.zero);
  face.h_r = larger(h_r + (bed_r - bed), k.zero);
  face.c_l = std::sqrt(g * face.h_l);
  face.c_r = std::sqrt(g * face.h_r);
  face.u_l = fused(quarter, l.slope_u, l.u);
  face.u_r = fused(-quarter, r.slope_u, r.u);
  face.v_l = fused(quarter, l.slope_v, l.v);
  face.v_r = fused(-quarter, r.slope_v, r.v);
  face.before =
      fused(half_g, fused(h_l, h_l, -(face.h_l * face.h_l)), (quarter_g * l.h) * (l.slope_e - l.slope_h));
  face.after =
      fused(half_g, fused(h_r, h_r, -(face.h_r * face.h_r)), -((quarter_g * r.h) * (r.slope_e - r.slope_h)));
  return face;
}

// Through a face: mass, normal momentum for the cell before and after it, tangential momentum.
template <typename Real>
struct WaterFlux {
  Real mass, before, after, tangential;
};

// HLLC.
template <typename Real>
KOKKOS_INLINE_FUNCTION WaterFlux<Real> flux(const WaterFace<Real>& f, const WaterConstants<Real>& k) {
  // Speeds of the outer waves; towards a dry side the front runs at u + 2 c.
  const Real w_l = f.h_l > k.dry ? f.u_l : fused(Real(-2), f.c_r, f.u_r);
  const Real w_r = f.h_r > k.dry ? f.u_r : fused(Real(2), f.c_l, f.u_l);
  const Real u_star = fused(Real(0.5), w_l + w_r, f.c_l - f.c_r);
  const Real c_star = larger(fused(Real(0.25), w_l - w_r, Real(0.5) * (f.c_l + f.c_r)), k.zero);
  const Real s_l = smaller(smaller(f.u_l - f.c_l, u_star - c_star), k.zero);
  const Real s_r = larger(larger(f.u_r + f.c_r, u_star + c_star), k.zero);

  const Real half_g = k.gravity / 2;
  const Real q_l = f.h_l * f.u_l, q_r = f.h_r * f.u_r;
  const Real m_l = fused(q_l, f.u_l, half_g * (f.h_l * f.h_l));
  const Real m_r = fused(q_r, f.u_r, half_g * (f.h_r * f.h_r));
  const Real over = 1 / larger(s_r - s_l, Real(1e-30)), product = s_l * s_r;
  const Real mass = fused(product, f.h_r - f.h_l, s_r * q_l - s_l * q_r) * over;
  const Real momentum = fused(product, q_r - q_l, s_r * m_l - s_l * m_r) * over;
  return {mass, momentum + f.before, momentum + f.after, mass * (mass >= k.zero ? f.v_l : f.v_r)};
}

}  // namespace tessera::detail
