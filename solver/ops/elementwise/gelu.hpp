#pragma once

#include <numbers>

#include "solver/ops/elementwise/fast_math.hpp"

// Internal to solver/ops.
namespace tessera {

/// x (1 + erf(x / sqrt 2)) / 2, and its derivative, in the compute type C.
struct Gelu {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return C(0.5) * x * (C(1) + fast::erf(x * C(1 / std::numbers::sqrt2)));
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    constexpr double density = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return C(0.5) * (C(1) + fast::erf(x * C(1 / std::numbers::sqrt2))) +
           x * C(density) * fast::exp(C(-0.5) * x * x);
  }
};

}  // namespace tessera
