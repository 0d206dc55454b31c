#pragma once

#include "solver/tensor/numeric.hpp"

// Internal to solver/ops: reductions over contiguous elements as independent partial sums, so that compilers
// vectorise them without reassociating and the order is fixed.
namespace tessera {

inline constexpr int kLanes = 16;

/// The sum of the lanes, pairwise.
template <typename A>
KOKKOS_INLINE_FUNCTION A lane_total(A (&lane)[kLanes]) {
  for (int l = 0; l < 8; ++l) lane[l] += lane[l + 8];
  for (int l = 0; l < 4; ++l) lane[l] += lane[l + 4];
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/// Adds term(i), i in [0, n).
template <typename A, typename Term>
KOKKOS_INLINE_FUNCTION A lane_sum(Index n, const Term& term) {
  A lane[kLanes] = {};
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lane[l] += term(i + l);
  }
  for (int l = 0; i + l < n; ++l) lane[l] += term(i + l);
  return lane_total(lane);
}

/// The largest of `start` and term(i), i in [0, n). (Comparisons of 16 lanes would be unrolled instead of
/// vectorised.)
template <typename A, typename Term>
KOKKOS_INLINE_FUNCTION A lane_max(Index n, A start, const Term& term) {
  constexpr int lanes = 2 * kLanes;
  A lane[lanes];
  for (int l = 0; l < lanes; ++l) lane[l] = start;
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int l = 0; l < lanes; ++l) {
      const A value = term(i + l);
      lane[l] = value > lane[l] ? value : lane[l];
    }
  }
  for (int l = 0; i + l < n; ++l) {
    const A value = term(i + l);
    lane[l] = value > lane[l] ? value : lane[l];
  }
  A top = lane[0];
  for (int l = 1; l < lanes; ++l) top = lane[l] > top ? lane[l] : top;
  return top;
}

template <typename T, typename U>
KOKKOS_INLINE_FUNCTION Compute<T> dot(const T* a, const U* b, Index n) {
  return lane_sum<Compute<T>>(n, [=](Index i) { return load(a[i]) * load(b[i]); });
}

}  // namespace tessera
