#include "solver/ops/reduce/reduce.hpp"

#include <limits>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

template <typename T>
struct AccumulatorType {
  using type = double;
};
template <>
struct AccumulatorType<bfloat16> {
  using type = float;
};

struct Sum {
  template <typename A>
  KOKKOS_INLINE_FUNCTION A start() const {
    return A(0);
  }
  template <typename A>
  KOKKOS_INLINE_FUNCTION A join(A a, A b) const {
    return a + b;
  }
};
struct Max {
  template <typename A>
  KOKKOS_INLINE_FUNCTION A start() const {
    return -std::numeric_limits<A>::infinity();
  }
  template <typename A>
  KOKKOS_INLINE_FUNCTION A join(A a, A b) const {
    return a > b || a != a ? a : b;  // NaN wins, as over the mesh
  }
};
struct Min {
  template <typename A>
  KOKKOS_INLINE_FUNCTION A start() const {
    return std::numeric_limits<A>::infinity();
  }
  template <typename A>
  KOKKOS_INLINE_FUNCTION A join(A a, A b) const {
    return a < b || a != a ? a : b;
  }
};

/// (outer, extent, inner) -> (outer, inner). Lanes of inner columns, or of contiguous elements where inner is
/// 1, keep the order of additions fixed and let the loop vectorise.
template <typename To, typename From, typename Op>
void reduce_middle(To* to, const From* from, Index outer, Index extent, Index inner, Op op) {
  using A = typename AccumulatorType<From>::type;
  constexpr Index lanes = 32;
  const Index blocks = (inner + lanes - 1) / lanes;
  for_each(
      "reduce", outer * blocks, KOKKOS_LAMBDA(Index job) {
        const Index o = job / blocks, first = job % blocks * lanes;
        const Index width = inner - first < lanes ? inner - first : lanes;
        A sums[lanes];
        for (Index l = 0; l < lanes; ++l) sums[l] = op.template start<A>();
        if (inner == 1) {
          const From* row = from + o * extent;
          Index e = 0;
          for (; e + lanes <= extent; e += lanes) {
            for (Index l = 0; l < lanes; ++l) sums[l] = op.join(sums[l], A(load(row[e + l])));
          }
          for (Index l = 0; e < extent; ++e, ++l) sums[l] = op.join(sums[l], A(load(row[e])));
          for (Index l = 1; l < lanes; ++l) sums[0] = op.join(sums[0], sums[l]);
        } else {
          for (Index e = 0; e < extent; ++e) {
            const From* row = from + (o * extent + e) * inner + first;
            for (Index l = 0; l < width; ++l) sums[l] = op.join(sums[l], A(load(row[l])));
          }
        }
        for (Index l = 0; l < width; ++l) store(to[o * inner + first + l], sums[l]);
      });
}

/// Reduces the marked dimensions of the local elements; the result keeps them with size 1.
template <typename T, typename Op>
Tensor reduce_local(const Tensor& x, const InlineVector<bool>& reduced, Op op) {
  Shape shape = x.local_shape();
  Tensor current = x.as_plain();
  for (int d = 0; d < shape.size(); ++d) {
    if (!reduced[d]) continue;
    int last = d;
    while (last + 1 < shape.size() && reduced[last + 1]) ++last;
    Index outer = 1, extent = 1, inner = 1;
    for (int i = 0; i < d; ++i) outer *= shape[i];
    for (int i = d; i <= last; ++i) extent *= shape[i], shape[i] = 1;
    for (int i = last + 1; i < shape.size(); ++i) inner *= shape[i];
    // A long run becomes chunks first, so that many rows are reduced side by side.
    constexpr Index chunk = 8192;
    if (inner == 1 && extent > 2 * chunk && extent % chunk == 0) {
      const Tensor partial = Tensor::empty(Shape{outer * (extent / chunk)}, x.dtype());
      reduce_middle(partial.data<T>(), current.data<T>(), outer * (extent / chunk), chunk, 1, op);
      current = partial;
      extent /= chunk;
    }
    const Tensor next = Tensor::empty(shape, x.dtype());
    reduce_middle(next.data<T>(), current.data<T>(), outer, extent, inner, op);
    current = next;
    d = last;
  }
  return current.as_plain(shape);
}

InlineVector<bool> marks(const Tensor& x, std::span<const int> dims) {
  auto reduced = InlineVector<bool>::filled(x.ndim(), dims.empty());
  for (int d : dims) {
    const int own = d < 0 ? d + x.ndim() : d;
    require(own >= 0 && own < x.ndim(), "reduce", "dimension {} outside {}", d, to_string(x.shape()));
    reduced[own] = true;
  }
  return reduced;
}

Shape kept_shape(const Shape& shape, const InlineVector<bool>& reduced, bool keepdim) {
  Shape result;
  for (int d = 0; d < shape.size(); ++d) {
    if (!reduced[d]) result.push_back(shape[d]);
    if (reduced[d] && keepdim) result.push_back(1);
  }
  return result;
}

/// Layout of the result: an axis that shards a reduced dimension becomes `pending`.
Layout kept_layout(const Layout& layout, const InlineVector<bool>& reduced, bool keepdim, Placement pending) {
  Layout result = Layout::replicated(layout.mesh(), kept_shape(layout.shape(), reduced, keepdim));
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    const Placement& p = layout.placement(a);
    if (!p.is_shard()) continue;
    if (reduced[p.dim]) {
      result = result.with_placement(a, pending);
      continue;
    }
    int dim = 0;
    for (int d = 0; d < p.dim; ++d) dim += !reduced[d] || keepdim;
    result = result.with_placement(a, Shard(dim), layout.partition(a));
  }
  return result;
}

Index reduced_count(const Shape& shape, const InlineVector<bool>& reduced) {
  Index n = 1;
  for (int d = 0; d < shape.size(); ++d) n *= reduced[d] ? shape[d] : 1;
  return n;
}

/// Where each local element of x finds its value in the reduced tensor.
struct Expansion {
  int dims = 0;
  Index extent[kMaxDims] = {};
  Index stride[kMaxDims] = {};  // 0 along reduced dimensions
};

Expansion expansion_of(const Shape& local, const InlineVector<bool>& reduced) {
  Expansion e;
  e.dims = local.size();
  Index stride = 1;
  for (int d = local.size() - 1; d >= 0; --d) {
    e.extent[d] = local[d];
    e.stride[d] = reduced[d] ? 0 : stride;
    if (!reduced[d]) stride *= local[d];
  }
  return e;
}

/// y[i] = body(i, position of element i in the reduced tensor), row by row.
template <typename Body>
void for_each_expanded(const char* name, const Expansion& e, Body body) {
  const Index row = e.dims ? e.extent[e.dims - 1] : 1;
  const Index step = e.dims ? e.stride[e.dims - 1] : 0;
  Index rows = 1;
  for (int d = 0; d + 1 < e.dims; ++d) rows *= e.extent[d];
  for_each(
      name, rows, KOKKOS_LAMBDA(Index r) {
        Index rest = r, at = 0;
        for (int d = e.dims - 2; d >= 0; --d) {
          at += rest % e.extent[d] * e.stride[d];
          rest /= e.extent[d];
        }
        for (Index i = 0; i < row; ++i) body(r * row + i, at + i * step);
      });
}

template <typename T>
void expand(T* gx, const T* g, const Expansion& e, double scale) {
  using C = Compute<T>;
  for_each_expanded(
      "expand", e, KOKKOS_LAMBDA(Index i, Index at) { store(gx[i], load(g[at]) * C(scale)); });
}

template <typename T>
void mark_equal(T* mark, const T* x, const T* y, const Expansion& e) {
  using C = Compute<T>;
  for_each_expanded(
      "mark_equal", e,
      KOKKOS_LAMBDA(Index i, Index at) { store(mark[i], load(x[i]) == load(y[at]) ? C(1) : C(0)); });
}

template <typename T>
void share_equal(T* gx, const T* g, const T* holders, const Expansion& e) {
  for_each_expanded(
      "share_equal", e,
      KOKKOS_LAMBDA(Index i, Index at) { store(gx[i], load(gx[i]) * load(g[at]) / load(holders[at])); });
}

Tensor with_result_layout(const Tensor& local, const Tensor& x, const InlineVector<bool>& reduced,
                          bool keepdim, Placement pending) {
  if (!x.is_shard()) return local.as_plain(kept_shape(x.shape(), reduced, keepdim));
  return local.with_layout(kept_layout(x.layout(), reduced, keepdim, pending));
}

const Operator& reduction(const char* name, Moves along) {
  return register_operator({.name = name,
                            .signature = std::string(name) + "(x, dims, keepdim)",
                            .family = "reductions",
                            .cuts = {{"reduced", along}, {"other"}},
                            .rule = keep_rule()});
}
const Operator& kSum = reduction("sum", Moves::partial);
const Operator& kMean = reduction("mean", Moves::partial);
const Operator& kAmax = reduction("amax", Moves::reduction);
const Operator& kAmin = reduction("amin", Moves::reduction);
const Operator& kVar = register_operator({.name = "var",
                                          .signature = "var(x, dims, keepdim, unbiased)",
                                          .family = "reductions",
                                          .cuts = {{"reduced", Moves::reduction}, {"other"}},
                                          .rule = keep_rule()});

Tensor scaled_sum(const Operator& entry, const Tensor& input, std::span<const int> dims, bool keepdim,
                  bool average) {
  const OperatorCall call(entry, {input});
  const char* name = call.name();
  const Tensor& x = call[0];
  const InlineVector<bool> reduced = marks(x, dims);
  const Index n = average ? reduced_count(x.shape(), reduced) : 1;
  Tensor y;
  dispatch_floating(x.dtype(), name, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    const Tensor local = reduce_local<T>(x, reduced, Sum{});
    expand(local.data<T>(), local.data<T>(), expansion_of(Shape{local.local_count()}, {false}),
           1.0 / double(n));
    y = with_result_layout(local, x, reduced, keepdim, Partial());
  });
  record(name, {x}, y, [name, reduced, n, x = x.detach()](const Tensor& g) {
    Tensor gx = Tensor::empty_like(x);
    dispatch_floating(x.dtype(), name, [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      expand(gx.data<T>(), g.data<T>(), expansion_of(x.local_shape(), reduced), 1.0 / double(n));
    });
    return Gradients{gx};
  });
  return y;
}

template <typename Op>
Tensor extreme(const Operator& entry, const Tensor& input, std::span<const int> dims, bool keepdim, Op op,
               ReduceOp over_mesh) {
  const OperatorCall call(entry, {input});
  const char* name = call.name();
  const Tensor& x = call[0];
  const InlineVector<bool> reduced = marks(x, dims);
  Tensor y;
  dispatch_floating(x.dtype(), name, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    y = with_result_layout(reduce_local<T>(x, reduced, op), x, reduced, keepdim, Partial(over_mesh));
  });
  y = reduce_partial(y);
  record(name, {x}, y, [name, reduced, keepdim, x = x.detach(), y](const Tensor& g) {
    const Expansion e = expansion_of(x.local_shape(), reduced);
    Tensor gx = Tensor::empty_like(x);
    dispatch_floating(x.dtype(), name, [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      mark_equal(gx.data<T>(), x.data<T>(), y.data<T>(), e);
      Tensor holders =
          with_result_layout(reduce_local<T>(gx, reduced, Sum{}), x, reduced, keepdim, Partial());
      holders = reduce_partial(holders);
      share_equal(gx.data<T>(), g.data<T>(), holders.data<T>(), e);
    });
    return Gradients{gx};
  });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x, std::span<const int> dims, bool keepdim) {
  return scaled_sum(kSum, x, dims, keepdim, false);
}

Tensor mean(const Tensor& x, std::span<const int> dims, bool keepdim) {
  return scaled_sum(kMean, x, dims, keepdim, true);
}

Tensor amax(const Tensor& x, std::span<const int> dims, bool keepdim) {
  return extreme(kAmax, x, dims, keepdim, Max{}, ReduceOp::max);
}

Tensor amin(const Tensor& x, std::span<const int> dims, bool keepdim) {
  return extreme(kAmin, x, dims, keepdim, Min{}, ReduceOp::min);
}

Tensor var(const Tensor& input, std::span<const int> dims, bool keepdim, bool unbiased) {
  const OperatorCall call(kVar, {input});
  const Tensor& x = call[0];
  const Tensor deviation = sub(x, mean(x, dims, true));
  const Tensor biased = mean(square(deviation), dims, keepdim);
  if (!unbiased) return biased;
  const double n = static_cast<double>(reduced_count(x.shape(), marks(x, dims)));
  return mul(biased, n / (n - 1));
}

}  // namespace tessera
