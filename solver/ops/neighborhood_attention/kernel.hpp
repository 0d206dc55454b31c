#pragma once

#include "solver/ops/device_array.hpp"
#include "solver/ops/neighborhood_attention/windows.hpp"

// Internal to neighbourhood attention: local queries against the keys of their region.
namespace tessera::neighborhood {

struct Problem {
  Windows windows;
  Index batch = 0, heads = 0, d = 0, dv = 0;
  double scale = 1;

  Index queries() const { return windows.queries[0] * windows.queries[1] * windows.queries[2]; }
  Index region() const { return windows.region[0] * windows.region[1] * windows.region[2]; }
};

/// q (batch, queries, heads, d), k (batch, region, heads, d), v (batch, region, heads, dv) -> out (batch,
/// queries, heads, dv) and the log-sum-exp (batch, queries, heads). T is the stored type; arithmetic is f32,
/// or f64 for f64.
template <typename T, typename A>
void forward(const Problem& problem, const T* q, const T* k, const T* v, T* out, A* lse);

/// Bytes of scratch memory of forward() or backward(), tables of windows aside. Looks at the sizes alone.
Index scratch_bytes(const Problem& problem, bool backward, DType compute_type);

template <typename T, typename A>
struct BackwardInputs {
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* out = nullptr;
  const T* gout = nullptr;
  const A* lse = nullptr;
};
/// Overwrites dq (batch, queries, heads, d), dk (batch, region, heads, d) and dv (batch, region, heads, dv).
template <typename T, typename A>
void backward(const Problem& problem, const BackwardInputs<T, A>& in, T* dq, A* dk, A* dv);

}  // namespace tessera::neighborhood
