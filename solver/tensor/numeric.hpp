#pragma once

#include <Kokkos_Core.hpp>

#include "parallel/dtype.hpp"
#include "parallel/inline_vector.hpp"

namespace tessera {

/// The type in which arithmetic on elements of T happens: float for bfloat16, T itself otherwise.
template <typename T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<bfloat16> {
  using type = float;
};
template <typename T>
using Compute = typename ComputeType<T>::type;

template <typename T>
KOKKOS_INLINE_FUNCTION Compute<T> load(const T& value) {
  return value;
}
KOKKOS_INLINE_FUNCTION float load(const bfloat16& value) {
  union {
    std::uint32_t bits;
    float number;
  } u;
  u.bits = static_cast<std::uint32_t>(value.bits) << 16;
  return u.number;
}

template <typename T, typename U>
KOKKOS_INLINE_FUNCTION void store(T& target, U value) {
  target = static_cast<T>(value);
}
/// Rounds to nearest even; NaN stays NaN.
template <typename U>
KOKKOS_INLINE_FUNCTION void store(bfloat16& target, U value) {
  union {
    std::uint32_t bits;
    float number;
  } u;
  u.number = static_cast<float>(value);
  const bool is_nan = (u.bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = u.bits + 0x7fffu + ((u.bits >> 16) & 1u);
  target.bits = static_cast<std::uint16_t>(is_nan ? ((u.bits >> 16) | 0x40u) : (rounded >> 16));
}

/// body(i) for i in [0, n).
template <typename Body>
void for_each(const char* name, Index n, const Body& body) {
  Kokkos::parallel_for(name, Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, n), body);
}

/// body(begin, end) for consecutive chunks of [0, n): the loop inside runs over contiguous elements.
template <typename Body>
void for_each_chunk(const char* name, Index n, const Body& body) {
  constexpr Index chunk = 8192;
  Kokkos::parallel_for(
      name, Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, (n + chunk - 1) / chunk),
      KOKKOS_LAMBDA(Index c) {
        const Index begin = c * chunk;
        body(begin, begin + chunk < n ? begin + chunk : n);
      });
}

}  // namespace tessera
