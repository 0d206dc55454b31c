#pragma once

#include <cmath>

#include "solver/tensor/numeric.hpp"

namespace tessera {

/// exp(x) for x <= 0 or little above, within 2 units in the last place; exactly 0 below -87. Written so that
/// loops over it vectorise: exp(x) = 2^n exp(r), |r| <= ln 2 / 2, with a polynomial for exp(r) (coefficients:
/// Cephes, expf).
KOKKOS_INLINE_FUNCTION float fast_exp(float x) {
  constexpr float least = -87.0f, log2e = 1.44269504088896341f;
  constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  constexpr float rounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < least ? least : x;
  const float n = (clamped * log2e + rounder) - rounder;
  const float r = (clamped - n * ln2_high) - n * ln2_low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  union {
    std::int32_t bits;
    float number;
  } power;
  power.bits = (static_cast<std::int32_t>(n) + 127) << 23;
  return x < least ? 0.0f : p * power.number;
}
KOKKOS_INLINE_FUNCTION double fast_exp(double x) {
  return std::exp(x);
}

}  // namespace tessera
