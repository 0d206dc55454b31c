#include "solver/ops/neighborhood_attention/tiles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solver/ops/attention/exponential.hpp"
#include "solver/ops/lanes.hpp"
#include "solver/ops/linear/gemm.hpp"

namespace tessera::neighborhood {
namespace {

/// A box of tokens within a larger one, for one sample and head of (batch, tokens, heads, depth).
struct Box3 {
  Index lo[kAxes], size[kAxes], of[kAxes];
  Index base = 0;    ///< row of the sample's first token and this head
  Index stride = 0;  ///< rows between tokens: the heads

  Index count() const { return size[0] * size[1] * size[2]; }
  Index lines() const { return size[0] * size[1]; }
  /// The row that holds the first token of a line of size[2] tokens; the others follow `stride` apart.
  KOKKOS_INLINE_FUNCTION Index line_row(Index line) const {
    const Index y = line % size[1], z = line / size[1];
    return base + (((lo[0] + z) * of[1] + lo[1] + y) * of[2] + lo[2]) * stride;
  }
  /// The row of (tokens, heads) that holds token i of the box.
  KOKKOS_INLINE_FUNCTION Index row(Index i) const {
    const Index x = i % size[2], y = i / size[2] % size[1], z = i / (size[2] * size[1]);
    return base + (((lo[0] + z) * of[1] + lo[1] + y) * of[2] + lo[2] + x) * stride;
  }
};

/// A tile's queries, the box of keys that they see, and the windows' places within it.
struct Tile {
  Box3 queries, keys;
  Index kernel[kAxes];
  const Index* first[kAxes];  ///< of all local queries, relative to the region

  Index window() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// The column of the first key that query i sees.
  KOKKOS_INLINE_FUNCTION Index column(Index i) const {
    const Index x = i % queries.size[2], y = i / queries.size[2] % queries.size[1],
                z = i / (queries.size[2] * queries.size[1]);
    const Index oz = first[0][queries.lo[0] + z] - keys.lo[0], oy = first[1][queries.lo[1] + y] - keys.lo[1],
                ox = first[2][queries.lo[2] + x] - keys.lo[2];
    return (oz * keys.size[1] + oy) * keys.size[2] + ox;
  }
  /// Calls body(column in the box, place in the window, length) for each line of query i's window.
  template <typename Body>
  KOKKOS_INLINE_FUNCTION void for_each_line(Index i, const Body& body) const {
    const Index start = column(i);
    for (Index z = 0; z < kernel[0]; ++z) {
      for (Index y = 0; y < kernel[1]; ++y) {
        body(start + (z * keys.size[1] + y) * keys.size[2], (z * kernel[1] + y) * kernel[2], kernel[2]);
      }
    }
  }
};

struct TileEdges {
  Index edge[kAxes];
};

/// About 32 to 64 queries, as near to a cube as the grid allows.
TileEdges tile_edges(const Windows& w) {
  const bool flat0 = w.queries[0] == 1 && w.kernel[0] == 1, flat1 = w.queries[1] == 1 && w.kernel[1] == 1;
  if (!flat0) return {{4, 4, 4}};
  if (!flat1) return {{1, 6, 8}};
  return {{1, 1, 64}};
}

template <typename Body>
void for_each_tile(const Problem& p, const Body& body) {
  const Windows& w = p.windows;
  const auto [edge] = tile_edges(w);
  Tile t;
  for (int a = 0; a < kAxes; ++a) {
    t.kernel[a] = w.kernel[a];
    t.first[a] = w.first[a].data();
    t.queries.of[a] = w.queries[a];
    t.keys.of[a] = w.region[a];
  }
  t.queries.stride = t.keys.stride = p.heads;
  const auto set_axis = [&](int a, Index lo) {
    t.queries.lo[a] = lo;
    t.queries.size[a] = std::min(edge[a], w.queries[a] - lo);
    const auto& first = w.host_first[a];
    t.keys.lo[a] = first[static_cast<std::size_t>(lo)];
    t.keys.size[a] = first[static_cast<std::size_t>(lo + t.queries.size[a] - 1)] + w.kernel[a] - t.keys.lo[a];
  };
  for (Index b = 0; b < p.batch; ++b) {
    for (Index z = 0; z < w.queries[0]; z += edge[0]) {
      set_axis(0, z);
      for (Index y = 0; y < w.queries[1]; y += edge[1]) {
        set_axis(1, y);
        for (Index x = 0; x < w.queries[2]; x += edge[2]) {
          set_axis(2, x);
          for (Index h = 0; h < p.heads; ++h) {
            t.queries.base = b * p.queries() * p.heads + h;
            t.keys.base = b * p.region() * p.heads + h;
            body(t);
          }
        }
      }
    }
  }
}

/// Room for the largest tile.
struct Extent {
  Index queries = 1, keys = 1;
};
Extent largest_tile(const Problem& p) {
  Extent e;
  const auto [edge] = tile_edges(p.windows);
  for (int a = 0; a < kAxes; ++a) {
    const Index m = std::min(edge[a], p.windows.queries[a]);
    e.queries *= m;
    e.keys *= std::min(m + p.windows.kernel[a] - 1, p.windows.region[a]);
  }
  return e;
}

template <typename T>
void pack(const Box3& box, Index depth, const T* from, float* to) {
  for_each(
      "neighborhood_pack", box.count(), KOKKOS_LAMBDA(Index i) {
        const T* row = from + box.row(i) * depth;
        for (Index c = 0; c < depth; ++c) to[i * depth + c] = load(row[c]);
      });
}

template <typename T>
void unpack(const Box3& box, Index depth, const float* from, T* to) {
  for_each(
      "neighborhood_unpack", box.count(), KOKKOS_LAMBDA(Index i) {
        T* row = to + box.row(i) * depth;
        for (Index c = 0; c < depth; ++c) store(row[c], from[i * depth + c]);
      });
}

void unpack_add(const Box3& box, Index depth, const float* from, float* to) {
  for_each(
      "neighborhood_unpack_add", box.count(), KOKKOS_LAMBDA(Index i) {
        float* row = to + box.row(i) * depth;
        for (Index c = 0; c < depth; ++c) row[c] += from[i * depth + c];
      });
}

/// Products become probabilities, 0 outside the windows. `compact` has room for a window per query.
void softmax(const Tile& t, float scale, float* scores, float* compact, float* lse) {
  const Index n = t.keys.count(), window = t.window();
  for_each(
      "neighborhood_softmax", t.queries.count(), KOKKOS_LAMBDA(Index i) {
        float* row = scores + i * n;
        float* s = compact + i * window;
        t.for_each_line(i, [=](Index column, Index place, Index length) {
          for (Index c = 0; c < length; ++c) s[place + c] = scale * row[column + c];
        });
        const float top =
            lane_max(window, -std::numeric_limits<float>::infinity(), [s](Index j) { return s[j]; });
        for (Index j = 0; j < window; ++j) s[j] = fast_exp(s[j] - top);
        const float total = lane_sum<float>(window, [s](Index j) { return s[j]; });
        lse[t.queries.row(i)] = top + std::log(total);
        const float factor = 1 / total;
        for (Index j = 0; j < n; ++j) row[j] = 0;
        t.for_each_line(i, [=](Index column, Index place, Index length) {
          for (Index c = 0; c < length; ++c) row[column + c] = factor * s[place + c];
        });
      });
}

/// Products become probabilities, and their gradients `dp` those of the products.
void softmax_gradient(const Tile& t, float scale, float* scores, float* dp, float* compact, const float* lse,
                      const float* products) {
  const Index n = t.keys.count(), window = t.window();
  for_each(
      "neighborhood_softmax_gradient", t.queries.count(), KOKKOS_LAMBDA(Index i) {
        float* row = scores + i * n;
        float* gradient = dp + i * n;
        float* p = compact + 2 * i * window;
        float* ds = p + window;
        t.for_each_line(i, [=](Index column, Index place, Index length) {
          for (Index c = 0; c < length; ++c) {
            p[place + c] = row[column + c];
            ds[place + c] = gradient[column + c];
          }
        });
        const float shift = lse[t.queries.row(i)], inner = products[i];
        for (Index j = 0; j < window; ++j) {
          p[j] = fast_exp(scale * p[j] - shift);
          ds[j] = scale * p[j] * (ds[j] - inner);
        }
        for (Index j = 0; j < n; ++j) row[j] = gradient[j] = 0;
        t.for_each_line(i, [=](Index column, Index place, Index length) {
          for (Index c = 0; c < length; ++c) {
            row[column + c] = p[place + c];
            gradient[column + c] = ds[place + c];
          }
        });
      });
}

/// out (m, n) = a b^T.
void multiply_nt(Index m, Index n, Index k, const float* a, const float* b, float* out) {
  gemm({.m = m, .n = n, .k = k, .transpose_b = true}, a, b, out);
}
/// out (m, n) = a b.
void multiply_nn(Index m, Index n, Index k, const float* a, const float* b, float* out) {
  gemm({.m = m, .n = n, .k = k}, a, b, out);
}
/// out (m, n) = a^T b.
void multiply_tn(Index m, Index n, Index k, const float* a, const float* b, float* out) {
  gemm({.m = m, .n = n, .k = k, .transpose_a = true}, a, b, out);
}

}  // namespace

bool tiles_pay(const Problem& p) {
  const Extent e = largest_tile(p);
  bool dense = true;
  for (const Index dilation : p.windows.dilation) dense = dense && dilation == 1;
  return dense && e.queries >= 8 && e.keys <= 8 * p.windows.window();
}

Index tile_scratch(const Problem& p, bool backward) {
  const Extent e = largest_tile(p);
  const Index scores = e.queries * e.keys, compact = e.queries * p.windows.window();
  const Index operands = e.queries * p.d + e.keys * (p.d + p.dv);
  if (!backward) return operands + scores + compact + e.queries * p.dv;
  return 2 * (operands + scores + compact) + e.queries * (2 * p.dv + 1);
}

template <typename T>
void forward_by_tiles(const Problem& p, const T* q, const T* k, const T* v, T* out, float* lse) {
  const Extent e = largest_tile(p);
  const DeviceArray<float> qs(e.queries * p.d), ks(e.keys * p.d), vs(e.keys * p.dv),
      scores(e.queries * e.keys), compact(e.queries * p.windows.window()), outs(e.queries * p.dv);
  for_each_tile(p, [&](const Tile& t) {
    const Index m = t.queries.count(), n = t.keys.count();
    pack(t.queries, p.d, q, qs.data());
    pack(t.keys, p.d, k, ks.data());
    pack(t.keys, p.dv, v, vs.data());
    multiply_nt(m, n, p.d, qs.data(), ks.data(), scores.data());
    softmax(t, static_cast<float>(p.scale), scores.data(), compact.data(), lse);
    multiply_nn(m, p.dv, n, scores.data(), vs.data(), outs.data());
    unpack(t.queries, p.dv, outs.data(), out);
  });
}

template <typename T>
void backward_by_tiles(const Problem& p, const BackwardInputs<T, float>& in, T* dq, float* dk, float* dv) {
  const Extent e = largest_tile(p);
  const DeviceArray<float> qs(e.queries * p.d), ks(e.keys * p.d), vs(e.keys * p.dv), gs(e.queries * p.dv),
      outs(e.queries * p.dv), scores(e.queries * e.keys), gradients(e.queries * e.keys),
      compact(2 * e.queries * p.windows.window()), products(e.queries), dqs(e.queries * p.d),
      dks(e.keys * p.d), dvs(e.keys * p.dv);
  const Index keys = p.batch * p.region() * p.heads, dv_size = p.dv;
  zero_bytes(dk, MemorySpace::device, static_cast<std::size_t>(keys * p.d) * sizeof(float));
  zero_bytes(dv, MemorySpace::device, static_cast<std::size_t>(keys * p.dv) * sizeof(float));
  for_each_tile(p, [&](const Tile& t) {
    const Index m = t.queries.count(), n = t.keys.count();
    pack(t.queries, p.d, in.q, qs.data());
    pack(t.queries, p.dv, in.gout, gs.data());
    pack(t.queries, p.dv, in.out, outs.data());
    pack(t.keys, p.d, in.k, ks.data());
    pack(t.keys, p.dv, in.v, vs.data());
    float* inner = products.data();
    const float *o = outs.data(), *g = gs.data();
    for_each(
        "neighborhood_output_products", m,
        KOKKOS_LAMBDA(Index i) { inner[i] = dot(o + i * dv_size, g + i * dv_size, dv_size); });
    multiply_nt(m, n, p.d, qs.data(), ks.data(), scores.data());
    multiply_nt(m, n, p.dv, gs.data(), vs.data(), gradients.data());
    softmax_gradient(t, static_cast<float>(p.scale), scores.data(), gradients.data(), compact.data(), in.lse,
                     inner);
    multiply_nn(m, p.d, n, gradients.data(), ks.data(), dqs.data());
    multiply_tn(n, p.d, m, gradients.data(), qs.data(), dks.data());
    multiply_tn(n, p.dv, m, scores.data(), gs.data(), dvs.data());
    unpack(t.queries, p.d, dqs.data(), dq);
    unpack_add(t.keys, p.d, dks.data(), dk);
    unpack_add(t.keys, p.dv, dvs.data(), dv);
  });
}

#define TESSERA_INSTANTIATE(T)                                                                 \
  template void forward_by_tiles<T>(const Problem&, const T*, const T*, const T*, T*, float*); \
  template void backward_by_tiles<T>(const Problem&, const BackwardInputs<T, float>&, T*, float*, float*);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(bfloat16)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::neighborhood
