#include "solver/ops/attention/kernel.hpp"

#include <algorithm>
#include <limits>

#include "solver/ops/attention/exponential.hpp"
#include "solver/ops/lanes.hpp"
#include "solver/ops/linear/gemm.hpp"

namespace tessera::attention_detail {
namespace {

/// A rectangle of scores of one sample and head: queries [i0, i0 + m), keys [j0, j0 + n), row-major in
/// scratch memory.
struct Tile {
  Index b = 0, h = 0;
  Index i0 = 0, m = 0;
  Index j0 = 0, n = 0;
  bool causal = false;  ///< some pair of the tile is hidden
};

/// Turns products into scores: scale, mask and causality; -infinity hides.
template <typename A>
struct Scorer {
  A scale;
  MaskView mask;
  const Index* queries;
  const Index* keys;

  /// Returns the factor that is still to be applied: without mask and causality the products stay as they
  /// are, which saves a pass over the row. It is positive.
  KOKKOS_INLINE_FUNCTION A apply(A* row, Index query, const Index* tile_keys, Index n, bool causal,
                                 Index mask_base) const {
    if (!mask.data && !causal && scale > 0) return scale;
    const A hidden = -std::numeric_limits<A>::infinity();
    for (Index j = 0; j < n; ++j) row[j] *= scale;
    if (mask.data) {
      const Index base = mask_base + (query - mask.first_row) * mask.row;
      for (Index j = 0; j < n; ++j) {
        const Index at = base + tile_keys[j] * mask.column;
        switch (mask.type) {
          case DType::u8:
            row[j] = static_cast<const std::uint8_t*>(mask.data)[at] ? row[j] : hidden;
            break;
          case DType::f64:
            row[j] += static_cast<A>(static_cast<const double*>(mask.data)[at]);
            break;
          default:
            row[j] += static_cast<A>(static_cast<const float*>(mask.data)[at]);
        }
      }
    }
    if (causal) {
      for (Index j = 0; j < n; ++j) row[j] = tile_keys[j] <= query ? row[j] : hidden;
    }
    return 1;
  }
};

template <typename A>
Scorer<A> scorer_of(const Problem& p, const Positions& keys) {
  return {static_cast<A>(p.scale), p.mask, p.queries.device.data(), keys.device.data()};
}

Index mask_base(const Problem& p, const Tile& t) {
  return (p.first_batch + t.b) * p.mask.batch + (p.first_head + t.h) * p.mask.head;
}

/// Calls body(tile) for every tile with a visible pair.
template <typename Body>
void for_each_tile(const Problem& p, const Positions& keys, const Body& body) {
  for (Index b = 0; b < p.batch; ++b) {
    for (Index h = 0; h < p.heads; ++h) {
      for (Index i0 = 0; i0 < p.queries.size(); i0 += kQueryTile) {
        for (Index j0 = 0; j0 < keys.size(); j0 += kKeyTile) {
          Tile t{b,  h,
                 i0, std::min(kQueryTile, p.queries.size() - i0),
                 j0, std::min(kKeyTile, keys.size() - j0)};
          if (p.causal) {
            // Positions rise within a block.
            const auto at = [](const Positions& of, Index i) { return of.host[static_cast<std::size_t>(i)]; };
            if (at(keys, j0) > at(p.queries, i0 + t.m - 1)) continue;
            t.causal = at(keys, j0 + t.n - 1) > at(p.queries, i0);
          }
          body(t);
        }
      }
    }
  }
}

template <typename A>
Gemm product(Index m, Index n, Index k) {
  return {.m = m, .n = n, .k = k, .type = dtype_of<A>, .out = dtype_of<A>};
}

/// scores (m, n) = q k^T.
template <typename A>
void score_products(const Problem& p, const Tile& t, Index depth, const A* q, Index keys, const A* k,
                    A* scores) {
  Gemm g = product<A>(t.m, t.n, depth);
  g.transpose_b = true;
  g.lda = g.ldb = p.heads * depth;
  gemm(g, q + ((t.b * p.queries.size() + t.i0) * p.heads + t.h) * depth,
       k + ((t.b * keys + t.j0) * p.heads + t.h) * depth, scores);
}

/// into (m, depth) += weights (m, n) values (n, depth), values at the tile's keys and result at its queries.
template <typename A>
void add_to_queries(const Problem& p, const Tile& t, Index depth, const A* weights, Index keys,
                    const A* values, A* into) {
  Gemm g = product<A>(t.m, depth, t.n);
  g.ldb = g.ldc = p.heads * depth;
  g.accumulate = true;
  gemm(g, weights, values + ((t.b * keys + t.j0) * p.heads + t.h) * depth,
       into + ((t.b * p.queries.size() + t.i0) * p.heads + t.h) * depth);
}

/// into (n, depth) += weights^T (n, m) values (m, depth), values at the tile's queries and result at its
/// keys.
template <typename A>
void add_to_keys(const Problem& p, const Tile& t, Index depth, const A* weights, Index keys, const A* values,
                 A* into) {
  Gemm g = product<A>(t.n, depth, t.m);
  g.transpose_a = true;
  g.ldb = g.ldc = p.heads * depth;
  g.accumulate = true;
  gemm(g, weights, values + ((t.b * p.queries.size() + t.i0) * p.heads + t.h) * depth,
       into + ((t.b * keys + t.j0) * p.heads + t.h) * depth);
}

/// Scores become exp(score - running maximum); maximum, sum and output of each query follow.
template <typename A>
void update_running(const Problem& p, const Tile& t, const Scorer<A>& scorer, A* scores,
                    const Running<A>& state) {
  const Index nq = p.queries.size(), first = (t.b * p.heads + t.h) * nq + t.i0, base = mask_base(p, t);
  const Index stride = p.heads * p.dv, dv = p.dv;
  A* maximum = state.maximum.data() + first;
  A* sum = state.sum.data() + first;
  A* out = state.out.data() + (t.b * nq + t.i0) * stride + t.h * dv;
  for_each(
      "attention_softmax", t.m, KOKKOS_LAMBDA(Index i) {
        A* row = scores + i * t.n;
        const A factor = scorer.apply(row, scorer.queries[t.i0 + i], scorer.keys + t.j0, t.n, t.causal, base);
        const A lowest = -std::numeric_limits<A>::infinity();
        const A highest = lane_max(t.n, lowest, [row](Index j) { return row[j]; }) * factor;
        const A top = highest > maximum[i] ? highest : maximum[i];
        if (top == lowest) {  // nothing visible so far
          for (Index j = 0; j < t.n; ++j) row[j] = 0;
          return;
        }
        const A total = lane_sum<A>(
            t.n, [row, factor, top](Index j) { return row[j] = fast_exp(row[j] * factor - top); });
        if (top != maximum[i]) {
          const A shrink = fast_exp(maximum[i] - top);
          sum[i] *= shrink;
          for (Index c = 0; c < dv; ++c) out[i * stride + c] *= shrink;
          maximum[i] = top;
        }
        sum[i] += total;
      });
}

/// scores become probabilities p, and dp becomes the gradient of the products: scale p (dp - out . gout).
template <typename A>
void probability_gradients(const Problem& p, const Tile& t, const Scorer<A>& scorer,
                           const BackwardInputs<A>& in, A* scores, A* dp) {
  const Index first = (t.b * p.heads + t.h) * p.queries.size() + t.i0, base = mask_base(p, t);
  const A* lse = in.lse + first;
  const A* products = in.products + first;
  for_each(
      "attention_softmax_gradient", t.m, KOKKOS_LAMBDA(Index i) {
        A* row = scores + i * t.n;
        A* gradient = dp + i * t.n;
        const A factor = scorer.apply(row, scorer.queries[t.i0 + i], scorer.keys + t.j0, t.n, t.causal, base);
        const A shift = lse[i], inner = products[i], scale = scorer.scale;
        for (Index j = 0; j < t.n; ++j) {
          row[j] = fast_exp(row[j] * factor - shift);
          gradient[j] = scale * row[j] * (gradient[j] - inner);
        }
      });
}

}  // namespace

Positions positions_of(const Shape& shape, const Box& box) {
  Positions p;
  p.host = {0};
  for (int d = 1; d < shape.size() - 2; ++d) {
    std::vector<Index> next;
    next.reserve(p.host.size() * static_cast<std::size_t>(box[d].size()));
    for (const Index outer : p.host) {
      for (Index i = box[d].lo; i < box[d].hi; ++i) next.push_back(outer * shape[d] + i);
    }
    p.host = std::move(next);
  }
  p.device = device_copy<Index>(p.host);
  return p;
}

template <typename A>
Running<A> start_running(const Problem& p) {
  const Index rows = p.batch * p.heads * p.queries.size();
  Running<A> state{DeviceArray<A>(rows), DeviceArray<A>(rows), DeviceArray<A>(rows * p.dv)};
  A* maximum = state.maximum.data();
  for_each(
      "attention_start", rows, KOKKOS_LAMBDA(Index i) { maximum[i] = -std::numeric_limits<A>::infinity(); });
  state.sum.zero();
  state.out.zero();
  return state;
}

template <typename A>
void attend(const Problem& p, const A* q, const Positions& keys, const A* k, const A* v,
            const Running<A>& state, const Progress& progress) {
  const Scorer<A> scorer = scorer_of<A>(p, keys);
  const DeviceArray<A> scores(std::min(kQueryTile, p.queries.size()) * std::min(kKeyTile, keys.size()));
  for_each_tile(p, keys, [&](const Tile& t) {
    score_products(p, t, p.d, q, keys.size(), k, scores.data());
    update_running(p, t, scorer, scores.data(), state);
    add_to_queries(p, t, p.dv, scores.data(), keys.size(), v, state.out.data());
    progress();
  });
}

template <typename A>
DeviceArray<A> finish_running(const Problem& p, const Running<A>& state) {
  const Index rows = p.batch * p.heads * p.queries.size(), nq = p.queries.size(), heads = p.heads, dv = p.dv;
  const DeviceArray<A> result(rows);
  A* lse = result.data();
  const A* maximum = state.maximum.data();
  const A* sum = state.sum.data();
  A* out = state.out.data();
  for_each(
      "attention_finish", rows, KOKKOS_LAMBDA(Index r) {
        const Index b = r / (heads * nq), h = r / nq % heads, i = r % nq;
        const A factor = sum[r] > 0 ? 1 / sum[r] : 0;
        lse[r] = sum[r] > 0 ? maximum[r] + std::log(sum[r]) : 0;
        A* row = out + ((b * nq + i) * heads + h) * dv;
        for (Index c = 0; c < dv; ++c) row[c] *= factor;
      });
  return result;
}

template <typename A>
DeviceArray<A> output_products(const Problem& p, const A* out, const A* gout) {
  const Index rows = p.batch * p.heads * p.queries.size(), nq = p.queries.size(), heads = p.heads, dv = p.dv;
  const DeviceArray<A> result(rows);
  A* products = result.data();
  for_each(
      "attention_output_products", rows, KOKKOS_LAMBDA(Index r) {
        const Index b = r / (heads * nq), h = r / nq % heads, i = r % nq;
        const Index at = ((b * nq + i) * heads + h) * dv;
        products[r] = dot(out + at, gout + at, dv);
      });
  return result;
}

template <typename A>
void attend_backward(const Problem& p, const BackwardInputs<A>& in, const Positions& keys, const A* k,
                     const A* v, A* dq, A* dk, A* dv, const Progress& progress) {
  const Scorer<A> scorer = scorer_of<A>(p, keys);
  const Index area = std::min(kQueryTile, p.queries.size()) * std::min(kKeyTile, keys.size());
  const DeviceArray<A> scores(area), gradients(area);
  for_each_tile(p, keys, [&](const Tile& t) {
    score_products(p, t, p.d, in.q, keys.size(), k, scores.data());
    score_products(p, t, p.dv, in.gout, keys.size(), v, gradients.data());
    probability_gradients(p, t, scorer, in, scores.data(), gradients.data());
    add_to_keys(p, t, p.dv, scores.data(), keys.size(), in.gout, dv);
    add_to_queries(p, t, p.d, gradients.data(), keys.size(), k, dq);
    add_to_keys(p, t, p.d, gradients.data(), keys.size(), in.q, dk);
    progress();
  });
}

#define TESSERA_INSTANTIATE(A)                                                                               \
  template Running<A> start_running<A>(const Problem&);                                                      \
  template void attend<A>(const Problem&, const A*, const Positions&, const A*, const A*, const Running<A>&, \
                          const Progress&);                                                                  \
  template DeviceArray<A> finish_running<A>(const Problem&, const Running<A>&);                              \
  template DeviceArray<A> output_products<A>(const Problem&, const A*, const A*);                            \
  template void attend_backward<A>(const Problem&, const BackwardInputs<A>&, const Positions&, const A*,     \
                                   const A*, A*, A*, A*, const Progress&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::attention_detail
