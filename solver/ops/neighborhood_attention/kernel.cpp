#include "solver/ops/neighborhood_attention/kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solver/ops/attention/exponential.hpp"
#include "solver/ops/lanes.hpp"
#include "solver/ops/neighborhood_attention/tiles.hpp"

namespace tessera::neighborhood {
namespace {

/// Windows as kernels read them.
struct View {
  Index queries[kAxes], region[kAxes], kernel[kAxes], dilation[kAxes];
  const Index* first[kAxes];
  const Index* seen_from[kAxes];
  const Index* seen_by[kAxes];
  Index window = 0, nq = 0, nk = 0;
  Index batch = 0, heads = 0, d = 0, dv = 0;

  /// The region's token that is the first of query i's window.
  KOKKOS_INLINE_FUNCTION Index first_key(Index i) const {
    const Index x = i % queries[2], y = i / queries[2] % queries[1], z = i / (queries[2] * queries[1]);
    return (first[0][z] * region[1] + first[1][y]) * region[2] + first[2][x];
  }
};

View view_of(const Problem& p) {
  View v;
  for (int a = 0; a < kAxes; ++a) {
    v.queries[a] = p.windows.queries[a];
    v.region[a] = p.windows.region[a];
    v.kernel[a] = p.windows.kernel[a];
    v.dilation[a] = p.windows.dilation[a];
    v.first[a] = p.windows.first[a].data();
    v.seen_from[a] = p.windows.seen_from[a].data();
    v.seen_by[a] = p.windows.seen_by[a].data();
  }
  v.window = p.windows.window();
  v.nq = p.queries();
  v.nk = p.region();
  v.batch = p.batch;
  v.heads = p.heads;
  v.d = p.d;
  v.dv = p.dv;
  return v;
}

/// Offsets, in tokens of the region, of a window's keys from its first.
DeviceArray<Index> window_offsets(const Windows& w) {
  std::vector<Index> offsets;
  for (Index z = 0; z < w.kernel[0]; ++z) {
    for (Index y = 0; y < w.kernel[1]; ++y) {
      for (Index x = 0; x < w.kernel[2]; ++x) {
        offsets.push_back((z * w.dilation[0] * w.region[1] + y * w.dilation[1]) * w.region[2] +
                          x * w.dilation[2]);
      }
    }
  }
  return device_copy<Index>(offsets);
}

/// Queries per launch, so that their scores stay in cache.
Index chunk_of(Index window, std::size_t bytes) {
  constexpr Index cache = Index{1} << 20;
  return std::max<Index>(1, cache / (window * static_cast<Index>(bytes)));
}

/// Calls body(first row, rows) for chunks of the rows (batch, query, head).
template <typename Body>
void for_each_row_chunk(Index rows, Index chunk, const Body& body) {
  for (Index first = 0; first < rows; first += chunk) body(first, std::min(chunk, rows - first));
}

template <typename T, typename A>
void forward_rows(const View& w, const Index* offsets, A scale, Index first_row, Index rows, A* scores,
                  const T* q, const T* k, const T* v, T* out, A* lse) {
  for_each(
      "neighborhood_attention", rows, KOKKOS_LAMBDA(Index local) {
        const Index row = first_row + local, h = row % w.heads, token = row / w.heads, b = token / w.nq;
        const Index key = b * w.nk + w.first_key(token % w.nq);
        A* s = scores + local * (w.window + w.dv);
        A* sum = s + w.window;  // the output in full precision
        A top = -std::numeric_limits<A>::infinity();
        for (Index j = 0; j < w.window; ++j) {
          s[j] = scale * dot(q + row * w.d, k + ((key + offsets[j]) * w.heads + h) * w.d, w.d);
          top = s[j] > top ? s[j] : top;
        }
        for (Index j = 0; j < w.window; ++j) s[j] = fast_exp(s[j] - top);
        const A total = lane_sum<A>(w.window, [s](Index j) { return s[j]; });
        for (Index c = 0; c < w.dv; ++c) sum[c] = 0;
        for (Index j = 0; j < w.window; ++j) {
          const T* value = v + ((key + offsets[j]) * w.heads + h) * w.dv;
          for (Index c = 0; c < w.dv; ++c) sum[c] += s[j] * load(value[c]);
        }
        for (Index c = 0; c < w.dv; ++c) store(out[row * w.dv + c], sum[c] / total);
        lse[row] = top + std::log(total);
      });
}

/// dq of the rows, and the products out . gout that the keys need.
template <typename T, typename A>
void query_gradients(const View& w, const Index* offsets, A scale, Index first_row, Index rows, A* scratch,
                     const BackwardInputs<T, A>& in, A* products, T* dq) {
  for_each(
      "neighborhood_attention_dq", rows, KOKKOS_LAMBDA(Index local) {
        const Index row = first_row + local, h = row % w.heads, token = row / w.heads, b = token / w.nq;
        const Index first = b * w.nk + w.first_key(token % w.nq);
        A* sum = scratch + local * w.d;
        for (Index c = 0; c < w.d; ++c) sum[c] = 0;
        const A inner = dot(in.out + row * w.dv, in.gout + row * w.dv, w.dv), shift = in.lse[row];
        products[row] = inner;
        for (Index j = 0; j < w.window; ++j) {
          const Index at = (first + offsets[j]) * w.heads + h;
          const T* key = in.k + at * w.d;
          const A p = fast_exp(scale * dot(in.q + row * w.d, key, w.d) - shift);
          const A ds = scale * p * (dot(in.gout + row * w.dv, in.v + at * w.dv, w.dv) - inner);
          for (Index c = 0; c < w.d; ++c) sum[c] += ds * load(key[c]);
        }
        for (Index c = 0; c < w.d; ++c) store(dq[row * w.d + c], sum[c]);
      });
}

/// Each key gathers from the queries that see it.
template <typename T, typename A>
void key_gradients(const View& w, A scale, const BackwardInputs<T, A>& in, const A* products, A* dk, A* dv) {
  for_each(
      "neighborhood_attention_dk", w.batch * w.nk * w.heads, KOKKOS_LAMBDA(Index row) {
        const Index h = row % w.heads, token = row / w.heads, b = token / w.nk, j = token % w.nk;
        const Index x = j % w.region[2], y = j / w.region[2] % w.region[1],
                    z = j / (w.region[2] * w.region[1]);
        A* dk_row = dk + row * w.d;
        A* dv_row = dv + row * w.dv;
        for (Index c = 0; c < w.d; ++c) dk_row[c] = 0;
        for (Index c = 0; c < w.dv; ++c) dv_row[c] = 0;
        for (Index iz = w.seen_from[0][z]; iz < w.seen_from[0][z + 1]; ++iz) {
          for (Index iy = w.seen_from[1][y]; iy < w.seen_from[1][y + 1]; ++iy) {
            const Index line = (b * w.queries[0] + w.seen_by[0][iz]) * w.queries[1] + w.seen_by[1][iy];
            for (Index ix = w.seen_from[2][x]; ix < w.seen_from[2][x + 1]; ++ix) {
              const Index query = (line * w.queries[2] + w.seen_by[2][ix]) * w.heads + h;
              const T* q = in.q + query * w.d;
              const T* gout = in.gout + query * w.dv;
              const A p = fast_exp(scale * dot(q, in.k + row * w.d, w.d) - in.lse[query]);
              const A ds = scale * p * (dot(gout, in.v + row * w.dv, w.dv) - products[query]);
              for (Index c = 0; c < w.d; ++c) dk_row[c] += ds * load(q[c]);
              for (Index c = 0; c < w.dv; ++c) dv_row[c] += p * load(gout[c]);
            }
          }
        }
      });
}

}  // namespace

Index scratch_bytes(const Problem& p, bool backward, DType compute_type) {
  const std::size_t size = size_of(compute_type);
  Index values = 0;
  if (compute_type == DType::f32 && tiles_pay(p)) {
    values = tile_scratch(p, backward);
  } else {
    const Index rows = p.batch * p.queries() * p.heads, row = backward ? p.d : p.windows.window() + p.dv;
    values = std::min(chunk_of(row, size), rows) * row + (backward ? rows : 0);
  }
  return values * static_cast<Index>(size);
}

template <typename T, typename A>
void forward(const Problem& p, const T* q, const T* k, const T* v, T* out, A* lse) {
  if constexpr (std::is_same_v<A, float>) {
    if (tiles_pay(p)) return forward_by_tiles(p, q, k, v, out, lse);
  }
  const View w = view_of(p);
  const DeviceArray<Index> offsets = window_offsets(p.windows);
  const Index rows = w.batch * w.nq * w.heads, chunk = chunk_of(w.window + w.dv, sizeof(A));
  const DeviceArray<A> scores(std::min(chunk, rows) * (w.window + w.dv));
  for_each_row_chunk(rows, chunk, [&](Index first, Index n) {
    forward_rows(w, offsets.data(), static_cast<A>(p.scale), first, n, scores.data(), q, k, v, out, lse);
  });
}

template <typename T, typename A>
void backward(const Problem& p, const BackwardInputs<T, A>& in, T* dq, A* dk, A* dv) {
  if constexpr (std::is_same_v<A, float>) {
    if (tiles_pay(p)) return backward_by_tiles(p, in, dq, dk, dv);
  }
  const View w = view_of(p);
  const DeviceArray<Index> offsets = window_offsets(p.windows);
  const Index rows = w.batch * w.nq * w.heads, chunk = chunk_of(w.d, sizeof(A));
  const DeviceArray<A> products(rows), scratch(std::min(chunk, rows) * w.d);
  const A scale = static_cast<A>(p.scale);
  for_each_row_chunk(rows, chunk, [&](Index first, Index n) {
    query_gradients(w, offsets.data(), scale, first, n, scratch.data(), in, products.data(), dq);
  });
  key_gradients(w, scale, in, products.data(), dk, dv);
}

#define TESSERA_INSTANTIATE(T, A)                                                    \
  template void forward<T, A>(const Problem&, const T*, const T*, const T*, T*, A*); \
  template void backward<T, A>(const Problem&, const BackwardInputs<T, A>&, T*, A*, A*);
TESSERA_INSTANTIATE(float, float)
TESSERA_INSTANTIATE(double, double)
TESSERA_INSTANTIATE(bfloat16, float)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::neighborhood
