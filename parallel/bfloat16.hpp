#pragma once

#include <Kokkos_Core.hpp>

#include "parallel/dtype.hpp"

namespace tessera {

/// Exact.
KOKKOS_INLINE_FUNCTION float to_float(bfloat16 value) {
  union {
    std::uint32_t bits;
    float number;
  } u;
  u.bits = static_cast<std::uint32_t>(value.bits) << 16;
  return u.number;
}

/// Rounds to nearest, ties to even; a NaN stays one.
KOKKOS_INLINE_FUNCTION bfloat16 to_bfloat16(float value) {
  union {
    std::uint32_t bits;
    float number;
  } u;
  u.number = value;
  const bool is_nan = (u.bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = u.bits + 0x7fffu + ((u.bits >> 16) & 1u);
  return {static_cast<std::uint16_t>(is_nan ? ((u.bits >> 16) | 0x40u) : (rounded >> 16))};
}

}  // namespace tessera
