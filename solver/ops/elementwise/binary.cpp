#include "solver/ops/elementwise/broadcast.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

// Each operator: value(a, b) and the slopes with respect to a and to b; of a linear one, a + b_factor b, the
// gradients need neither operand.

struct Add {
  static constexpr bool is_linear = true;
  static constexpr double b_factor = 1;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C a, C b) const {
    return a + b;
  }
};

struct Sub {
  static constexpr bool is_linear = true;
  static constexpr double b_factor = -1;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C a, C b) const {
    return a - b;
  }
};

struct Mul {
  static constexpr bool is_linear = false;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C a, C b) const {
    return a * b;
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope_a(C, C b) const {
    return b;
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope_b(C a, C) const {
    return a;
  }
};

struct Div {
  static constexpr bool is_linear = false;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C a, C b) const {
    return a / b;
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope_a(C, C b) const {
    return C(1) / b;
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope_b(C a, C b) const {
    return -a / (b * b);
  }
};

/// The larger or smaller operand; NaN wins, equal operands share the gradient.
template <bool larger>
struct Extreme {
  static constexpr bool is_linear = false;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C a, C b) const {
    return (larger ? a > b : a < b) || a != a ? a : b;
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope_a(C a, C b) const {
    return a == b ? C(0.5) : ((larger ? a > b : a < b) ? C(1) : C(0));
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope_b(C a, C b) const {
    return C(1) - slope_a(a, b);
  }
};

/// a where the condition (0 or 1) equals `kept`, 0 elsewhere.
template <bool kept>
struct Where {
  static constexpr bool is_linear = false;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C a, C condition) const {
    return (condition != C(0)) == kept ? a : C(0);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope_a(C, C condition) const {
    return (condition != C(0)) == kept ? C(1) : C(0);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope_b(C, C) const {
    return C(0);
  }
};

enum class Relation { eq, ne, lt, le };

template <Relation relation>
struct Compare {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C a, C b) const {
    const bool holds = relation == Relation::eq   ? a == b
                       : relation == Relation::ne ? a != b
                       : relation == Relation::lt ? a < b
                                                  : a <= b;
    return holds ? C(1) : C(0);
  }
};

template <typename Op>
struct Value {
  Op op;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C operator()(C a, C b, C) const {
    return op.value(a, b);
  }
};
template <typename Op>
struct GradientA {
  Op op;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C operator()(C a, C b, C g) const {
    return g * op.slope_a(a, b);
  }
};
template <typename Op>
struct GradientB {
  Op op;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C operator()(C a, C b, C g) const {
    return g * op.slope_b(a, b);
  }
};

/// Element strides of the operands over the local result, 0 where an operand is stretched.
struct Strides {
  int dims = 0;
  Index extent[kMaxDims] = {};
  Index a[kMaxDims] = {};
  Index b[kMaxDims] = {};
};

void fill_strides(const Shape& result, const Shape& operand, Index* strides) {
  Index stride = 1;
  for (int d = result.size() - 1; d >= 0; --d) {
    const int own = d - (result.size() - operand.size());
    strides[d] = own >= 0 && operand[own] != 1 ? stride : 0;
    if (own >= 0) stride *= operand[own];
  }
}

Strides strides_of(const Shape& result, const Shape& a, const Shape& b) {
  Strides s;
  s.dims = result.size();
  for (int d = 0; d < result.size(); ++d) s.extent[d] = result[d];
  fill_strides(result, a, s.a);
  fill_strides(result, b, s.b);
  return s;
}

template <typename T, typename Body>
void apply_equal(T* y, const T* a, const T* b, const T* g, Index n, Body body) {
  for_each_chunk(
      "binary", n, KOKKOS_LAMBDA(Index begin, Index end) {
        for (Index i = begin; i < end; ++i) store(y[i], body(load(a[i]), load(b[i]), load(g[i])));
      });
}

/// y[i] = body(a, b, g[i]) over rows of the last result dimension.
template <typename T, typename Body>
void apply_broadcast(T* y, const T* a, const T* b, const T* g, Strides s, Body body) {
  const Index row = s.dims ? s.extent[s.dims - 1] : 1;
  Index rows = 1;
  for (int d = 0; d + 1 < s.dims; ++d) rows *= s.extent[d];
  const Index step_a = s.dims ? s.a[s.dims - 1] : 0;
  const Index step_b = s.dims ? s.b[s.dims - 1] : 0;
  for_each(
      "binary_broadcast", rows, KOKKOS_LAMBDA(Index r) {
        Index rest = r, at_a = 0, at_b = 0;
        for (int d = s.dims - 2; d >= 0; --d) {
          at_a += rest % s.extent[d] * s.a[d];
          at_b += rest % s.extent[d] * s.b[d];
          rest /= s.extent[d];
        }
        for (Index i = 0; i < row; ++i) {
          const Index at = r * row + i;
          store(y[at], body(load(a[at_a + i * step_a]), load(b[at_b + i * step_b]), load(g[at])));
        }
      });
}

template <typename Body>
void apply(const char* name, const Tensor& y, const Tensor& a, const Tensor& b, const Tensor& g, Body body) {
  if (y.local_count() == 0) return;
  dispatch_floating(y.dtype(), name, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    if (a.local_shape() == b.local_shape()) {
      apply_equal(y.data<T>(), a.data<T>(), b.data<T>(), g.data<T>(), y.local_count(), body);
    } else {
      apply_broadcast(y.data<T>(), a.data<T>(), b.data<T>(), g.data<T>(),
                      strides_of(y.local_shape(), a.local_shape(), b.local_shape()), body);
    }
  });
}

const Operator& pairwise(const char* name, const char* operands = "(a, b)") {
  return register_operator({.name = name,
                            .signature = std::string(name) + operands,
                            .family = "elementwise",
                            .cuts = {{"any"}},
                            .rule = index_rule("..., ... -> ...")});
}

/// The call of an operator of two operands, and the shape of its result.
struct Pair {
  OperatorCall call;
  Shape shape;

  Pair(const Operator& entry, const Tensor& a, const Tensor& b)
      : call(checked(entry, a, b), {a, b}), shape(broadcast_shape(a.shape(), b.shape(), entry.name)) {}

  static const Operator& checked(const Operator& entry, const Tensor& a, const Tensor& b) {
    require(a.dtype() == b.dtype(), entry.name.c_str(), "element types {} and {} differ", name_of(a.dtype()),
            name_of(b.dtype()));
    check_floating(entry.name.c_str(), a);
    return entry;
  }
};

template <typename Op>
Tensor binary(const Operator& entry, const Tensor& a_in, const Tensor& b_in, Op op) {
  const Pair pair(entry, a_in, b_in);
  const char* name = pair.call.name();
  const Tensor &a = pair.call[0], &b = pair.call[1];
  Tensor y = pair.call.empty_result(pair.shape, a.dtype());
  apply(name, y, a, b, y, Value<Op>{op});  // the third operand is not used by Value
  const bool need_a = a.requires_grad(), need_b = b.requires_grad();
  if constexpr (Op::is_linear) {
    record(name, {a, b}, y, [need_a, need_b, a_shape = a.shape(), b_shape = b.shape()](const Tensor& g) {
      Gradients grads(2);
      if (need_a) grads[0] = sum_to_operand(g, a_shape);
      if (need_b) grads[1] = sum_to_operand(Op::b_factor == 1 ? g : mul(g, Op::b_factor), b_shape);
      return grads;
    });
  } else {
    record(name, {a, b}, y, [name, op, a = a.detach(), b = b.detach(), need_a, need_b](const Tensor& g) {
      const auto times_slope = [&](const Tensor& operand, auto slope) {
        const Tensor full = Tensor::empty_like(g);
        apply(name, full, a, b, g, slope);
        return sum_to_operand(full, operand.shape());
      };
      Gradients grads(2);
      if (need_a) grads[0] = times_slope(a, GradientA<Op>{op});
      if (need_b) grads[1] = times_slope(b, GradientB<Op>{op});
      return grads;
    });
  }
  return y;
}

template <typename Op>
Tensor compare(const Operator& entry, const Tensor& a, const Tensor& b, Op op) {
  const NoGrad no_grad;
  const Pair pair(entry, a, b);
  const Tensor y = pair.call.empty_result(pair.shape, a.dtype());
  apply(pair.call.name(), y, pair.call[0], pair.call[1], y, Value<Op>{op});
  return y.to(DType::u8);
}

const Operator& kAdd = pairwise("add");
const Operator& kSub = pairwise("sub");
const Operator& kMul = pairwise("mul");
const Operator& kDiv = pairwise("div");
const Operator& kMaximum = pairwise("maximum");
const Operator& kMinimum = pairwise("minimum");
const Operator& kEq = pairwise("eq");
const Operator& kNe = pairwise("ne");
const Operator& kLt = pairwise("lt");
const Operator& kLe = pairwise("le");
const Operator& kGt = pairwise("gt");
const Operator& kGe = pairwise("ge");
const Operator& kWhere = pairwise("where", "(condition, a, b)");

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  return binary(kAdd, a, b, Add{});
}
Tensor sub(const Tensor& a, const Tensor& b) {
  return binary(kSub, a, b, Sub{});
}
Tensor mul(const Tensor& a, const Tensor& b) {
  return binary(kMul, a, b, Mul{});
}
Tensor div(const Tensor& a, const Tensor& b) {
  return binary(kDiv, a, b, Div{});
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return binary(kMaximum, a, b, Extreme<true>{});
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return binary(kMinimum, a, b, Extreme<false>{});
}

Tensor eq(const Tensor& a, const Tensor& b) {
  return compare(kEq, a, b, Compare<Relation::eq>{});
}
Tensor ne(const Tensor& a, const Tensor& b) {
  return compare(kNe, a, b, Compare<Relation::ne>{});
}
Tensor lt(const Tensor& a, const Tensor& b) {
  return compare(kLt, a, b, Compare<Relation::lt>{});
}
Tensor le(const Tensor& a, const Tensor& b) {
  return compare(kLe, a, b, Compare<Relation::le>{});
}
Tensor gt(const Tensor& a, const Tensor& b) {
  return compare(kGt, b, a, Compare<Relation::lt>{});
}
Tensor ge(const Tensor& a, const Tensor& b) {
  return compare(kGe, b, a, Compare<Relation::le>{});
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require(condition.dtype() == DType::u8, "where", "found condition {}, expected u8", describe(condition));
  const Tensor chosen = condition.to(a.dtype());
  return add(binary(kWhere, a, chosen, Where<true>{}), binary(kWhere, b, chosen, Where<false>{}));
}

}  // namespace tessera
