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

/// Calls body(tile) for every tile of a head with a visible pair.
template <typename Body>
void for_each_tile(const Problem& p, Index b, Index h, const Positions& keys, const Body& body) {
  for (Index i0 = 0; i0 < p.queries.size(); i0 += kQueryTile) {
    for (Index j0 = 0; j0 < keys.size(); j0 += kKeyTile) {
      Tile t{b, h, i0, std::min(kQueryTile, p.queries.size() - i0), j0, std::min(kKeyTile, keys.size() - j0)};
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

template <typename Body>
void for_each_head(const Problem& p, const Positions& keys, const Body& body) {
  if (p.queries.size() == 0 || keys.size() == 0) return;
  if (p.causal && keys.host.front() > p.queries.host.back()) return;  // all hidden
  for (Index b = 0; b < p.batch; ++b) {
    for (Index h = 0; h < p.heads; ++h) body(b, h);
  }
}

/// One head of an operand at a time, (tokens, depth), dense.
template <typename T>
class Head {
 public:
  using A = Compute<T>;
  Head(const Problem& p, Index tokens, Index depth, const T* operand)
      : heads_(p.heads), tokens_(tokens), depth_(depth), operand_(operand), values_(tokens * depth) {}

  void load_head(Index b, Index h) const {
    const Index depth = depth_, stride = heads_ * depth_;
    const T* from = operand_ + b * tokens_ * stride + h * depth;
    A* to = values_.data();
    for_each(
        "attention_head", tokens_, KOKKOS_LAMBDA(Index i) {
          for (Index c = 0; c < depth; ++c) to[i * depth + c] = load(from[i * stride + c]);
        });
  }
  const A* row(Index token) const { return values_.data() + token * depth_; }

 private:
  Index heads_, tokens_, depth_;
  const T* operand_;
  DeviceArray<A> values_;
};

template <typename A>
Gemm product(Index m, Index n, Index k) {
  return {.m = m, .n = n, .k = k, .type = dtype_of<A>, .out = dtype_of<A>};
}

/// scores (m, n) = q k^T, of the tile's queries and keys.
template <typename A>
void score_products(const Tile& t, Index depth, const A* q, const A* k, A* scores) {
  Gemm g = product<A>(t.m, t.n, depth);
  g.transpose_b = true;
  gemm(g, q, k, scores);
}

/// into (m, depth) += weights (m, n) values (n, depth), values at the tile's keys and result at its queries.
template <typename A>
void add_to_queries(const Tile& t, Index depth, const A* weights, const A* values, A* into) {
  Gemm g = product<A>(t.m, depth, t.n);
  g.accumulate = true;
  gemm(g, weights, values, into);
}

/// into (n, depth) += weights^T (n, m) values (m, depth), values at the tile's queries and result at its
/// keys.
template <typename A>
void add_to_keys(const Tile& t, Index depth, const A* weights, const A* values, A* into) {
  Gemm g = product<A>(t.n, depth, t.m);
  g.transpose_a = true;
  g.accumulate = true;
  gemm(g, weights, values, into);
}

/// Scores become exp(score - running maximum); maximum, sum and output of each query follow.
template <typename A>
void update_running(const Problem& p, const Tile& t, const Scorer<A>& scorer, A* scores,
                    const Running<A>& state) {
  const Index nq = p.queries.size(), first = (t.b * p.heads + t.h) * nq + t.i0, base = mask_base(p, t);
  const Index dv = p.dv;
  A* maximum = state.maximum.data() + first;
  A* sum = state.sum.data() + first;
  A* out = state.out.data() + first * dv;
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
          for (Index c = 0; c < dv; ++c) out[i * dv + c] *= shrink;
          maximum[i] = top;
        }
        sum[i] += total;
      });
}

/// scores become probabilities p, and dp becomes the gradient of the products: scale p (dp - out . gout).
template <typename T, typename A = Compute<T>>
void probability_gradients(const Problem& p, const Tile& t, const Scorer<A>& scorer,
                           const BackwardInputs<T>& in, A* scores, A* dp) {
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

template <typename T>
void attend(const Problem& p, const T* q, const Positions& keys, const T* k, const T* v,
            const Running<Compute<T>>& state, const Progress& progress) {
  using A = Compute<T>;
  const Index nq = p.queries.size(), nk = keys.size();
  const Scorer<A> scorer = scorer_of<A>(p, keys);
  const DeviceArray<A> scores(std::min(kQueryTile, nq) * std::min(kKeyTile, nk));
  const Head<T> q_head(p, nq, p.d, q), k_head(p, nk, p.d, k), v_head(p, nk, p.dv, v);
  for_each_head(p, keys, [&](Index b, Index h) {
    for (const Head<T>* head : {&q_head, &k_head, &v_head}) head->load_head(b, h);
    A* out = state.out.data() + (b * p.heads + h) * nq * p.dv;
    for_each_tile(p, b, h, keys, [&](const Tile& t) {
      score_products(t, p.d, q_head.row(t.i0), k_head.row(t.j0), scores.data());
      update_running(p, t, scorer, scores.data(), state);
      add_to_queries(t, p.dv, scores.data(), v_head.row(t.j0), out + t.i0 * p.dv);
      progress();
    });
  });
}

template <typename T>
DeviceArray<Compute<T>> finish_running(const Problem& p, const Running<Compute<T>>& state, T* y) {
  using A = Compute<T>;
  const Index rows = p.batch * p.heads * p.queries.size(), nq = p.queries.size(), heads = p.heads, dv = p.dv;
  const DeviceArray<A> result(rows);
  A* lse = result.data();
  const A* maximum = state.maximum.data();
  const A* sum = state.sum.data();
  const A* out = state.out.data();
  for_each(
      "attention_finish", rows, KOKKOS_LAMBDA(Index r) {
        const Index b = r / (heads * nq), h = r / nq % heads, i = r % nq;
        const A factor = sum[r] > 0 ? 1 / sum[r] : 0;
        lse[r] = sum[r] > 0 ? maximum[r] + std::log(sum[r]) : 0;
        T* row = y + ((b * nq + i) * heads + h) * dv;
        for (Index c = 0; c < dv; ++c) store(row[c], factor * out[r * dv + c]);
      });
  return result;
}

template <typename T>
DeviceArray<Compute<T>> output_products(const Problem& p, const T* out, const T* gout) {
  using A = Compute<T>;
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

template <typename T>
void attend_backward(const Problem& p, const BackwardInputs<T>& in, const Positions& keys, const T* k,
                     const T* v, Compute<T>* dq, Compute<T>* dk, Compute<T>* dv, const Progress& progress) {
  using A = Compute<T>;
  const Index nq = p.queries.size(), nk = keys.size();
  const Scorer<A> scorer = scorer_of<A>(p, keys);
  const Index area = std::min(kQueryTile, nq) * std::min(kKeyTile, nk);
  const DeviceArray<A> scores(area), gradients(area);
  const Head<T> q_head(p, nq, p.d, in.q), gout_head(p, nq, p.dv, in.gout), k_head(p, nk, p.d, k),
      v_head(p, nk, p.dv, v);
  for_each_head(p, keys, [&](Index b, Index h) {
    for (const Head<T>* head : {&q_head, &gout_head, &k_head, &v_head}) head->load_head(b, h);
    const Index of_head = b * p.heads + h;
    for_each_tile(p, b, h, keys, [&](const Tile& t) {
      const Index query = of_head * nq + t.i0, key = of_head * nk + t.j0;
      score_products(t, p.d, q_head.row(t.i0), k_head.row(t.j0), scores.data());
      score_products(t, p.dv, gout_head.row(t.i0), v_head.row(t.j0), gradients.data());
      probability_gradients(p, t, scorer, in, scores.data(), gradients.data());
      add_to_keys(t, p.dv, scores.data(), gout_head.row(t.i0), dv + key * p.dv);
      add_to_queries(t, p.d, gradients.data(), k_head.row(t.j0), dq + query * p.d);
      add_to_keys(t, p.d, gradients.data(), q_head.row(t.i0), dk + key * p.d);
      progress();
    });
  });
}

template Running<float> start_running<float>(const Problem&);
template Running<double> start_running<double>(const Problem&);

#define TESSERA_INSTANTIATE(T)                                                                           \
  template void attend<T>(const Problem&, const T*, const Positions&, const T*, const T*,                \
                          const Running<Compute<T>>&, const Progress&);                                  \
  template DeviceArray<Compute<T>> finish_running<T>(const Problem&, const Running<Compute<T>>&, T*);    \
  template DeviceArray<Compute<T>> output_products<T>(const Problem&, const T*, const T*);               \
  template void attend_backward<T>(const Problem&, const BackwardInputs<T>&, const Positions&, const T*, \
                                   const T*, Compute<T>*, Compute<T>*, Compute<T>*, const Progress&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(bfloat16)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::attention_detail
