#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <Kokkos_Core.hpp>

// Single-precision functions without branches or table look-ups, so that loops over them vectorise. The
// double-precision overloads are the standard library's.
namespace tessera::fast {

/// e^x for x <= 88, relative error below 2e-7; 0 below -87. e^x = 2^n e^r with |r| <= ln 2 / 2, Taylor's
/// series in r.
KOKKOS_INLINE_FUNCTION float exp(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer.
  const float n = (clamped * 1.442695041f + 12582912.0f) - 12582912.0f;
  const float r = (clamped - n * 0.693145752f) - n * 1.42860677e-6f;
  const float series =
      1 + r * (1 + r * (0.5f + r * (0.166666667f +
                                    r * (0.0416666667f + r * (0.00833333333f +
                                                              r * (0.00138888889f + r * 0.000198412698f))))));
  const float power = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : series * power;
}
KOKKOS_INLINE_FUNCTION double exp(double x) {
  return std::exp(x);
}

/// erf(x), absolute error below 4e-7: x P(x^2) / Q(x^2) on [-4, 4], a least-squares fit of degrees 6 and 5
/// reweighted until its error was level (1.5e-9 before rounding); beyond 4, where 1 - erf < 2e-8, the value
/// at 4.
KOKKOS_INLINE_FUNCTION float erf(float x) {
  const float c = x < -4.0f ? -4.0f : (x > 4.0f ? 4.0f : x);
  const float t = c * c;
  const float p =
      1.128379225730896f + t * (0.18471069633960724f +
                                t * (0.054332636296749115f +
                                     t * (0.0038395423907786608f +
                                          t * (0.00038269214564934373f +
                                               t * (4.780528797709849e-06f + t * -1.366674862168793e-08f)))));
  const float q =
      1.0f + t * (0.4970291256904602f +
                  t * (0.1138264462351799f + t * (0.015453542582690716f + t * (0.0013095816830173135f +
                                                                               t * 6.400917482096702e-05f))));
  return c * p / q;
}
KOKKOS_INLINE_FUNCTION double erf(double x) {
  return std::erf(x);
}

}  // namespace tessera::fast
