#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/elementwise/gelu.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

// Each operator is a functor: value(x), and slope(x) = d value / dx, in the compute type C.

struct Relu {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x > C(0) ? x : C(0);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return x > C(0) ? C(1) : C(0);
  }
};

struct LeakyRelu {
  double below;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x > C(0) ? x : C(below) * x;
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return x > C(0) ? C(1) : C(below);
  }
};

struct Elu {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x > C(0) ? x : std::expm1(x);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return x > C(0) ? C(1) : std::exp(x);
  }
};

struct GeluTanh {
  static constexpr double a = 0.7978845608028654;  // sqrt(2 / pi)
  static constexpr double b = 0.044715;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return C(0.5) * x * (C(1) + std::tanh(C(a) * (x + C(b) * x * x * x)));
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    const C t = std::tanh(C(a) * (x + C(b) * x * x * x));
    return C(0.5) * (C(1) + t) + C(0.5) * x * (C(1) - t * t) * C(a) * (C(1) + C(3 * b) * x * x);
  }
};

struct Sigmoid {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return C(1) / (C(1) + std::exp(-x));
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return value(x) * (C(1) - value(x));
  }
};

struct Silu {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x * Sigmoid().value(x);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    const C s = Sigmoid().value(x);
    return s * (C(1) + x * (C(1) - s));
  }
};

struct Softplus {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x > C(20) ? x : std::log1p(std::exp(x));
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return Sigmoid().value(x);
  }
};

struct Tanh {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return std::tanh(x);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return C(1) - std::tanh(x) * std::tanh(x);
  }
};

struct Exp {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return std::exp(x);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return std::exp(x);
  }
};

struct Log {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return std::log(x);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return C(1) / x;
  }
};

struct Sqrt {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return std::sqrt(x);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return C(0.5) / std::sqrt(x);
  }
};

struct Square {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x * x;
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return C(2) * x;
  }
};

struct Abs {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x < C(0) ? -x : x;
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return x > C(0) ? C(1) : (x < C(0) ? C(-1) : C(0));
  }
};

struct AddScalar {
  double scalar;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x + C(scalar);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C) const {
    return C(1);
  }
};

struct MulScalar {
  double scalar;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x * C(scalar);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C) const {
    return C(scalar);
  }
};

struct Clamp {
  double low, high;
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return x < C(low) ? C(low) : (x > C(high) ? C(high) : x);
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    return x >= C(low) && x <= C(high) ? C(1) : C(0);
  }
};

template <typename T, typename Op>
void apply(T* y, const T* x, Index n, Op op) {
  for_each_chunk(
      "unary", n, KOKKOS_LAMBDA(Index begin, Index end) {
        for (Index i = begin; i < end; ++i) store(y[i], op.value(load(x[i])));
      });
}

template <typename T, typename Op>
void apply_slope(T* gx, const T* gy, const T* x, Index n, Op op) {
  for_each_chunk(
      "unary_gradient", n, KOKKOS_LAMBDA(Index begin, Index end) {
        for (Index i = begin; i < end; ++i) store(gx[i], load(gy[i]) * op.slope(load(x[i])));
      });
}

const Operator& pointwise(const char* name, const char* signature) {
  return register_operator({.name = name,
                            .signature = signature,
                            .family = "elementwise",
                            .cuts = {{"any"}},
                            .rule = keep_rule()});
}

template <typename Op>
Tensor unary(const Operator& entry, const Tensor& input, Op op) {
  const OperatorCall call(entry, {input});
  const Tensor& x = call[0];
  Tensor y = Tensor::empty_like(x);
  dispatch_floating(x.dtype(), call.name(), [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    apply(y.data<T>(), x.data<T>(), x.local_count(), op);
  });
  record(call.name(), {x}, y, [name = call.name(), op, x = x.detach()](const Tensor& gy) {
    Tensor gx = Tensor::empty_like(x);
    dispatch_floating(x.dtype(), name, [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      apply_slope(gx.data<T>(), gy.data<T>(), x.data<T>(), x.local_count(), op);
    });
    return Gradients{gx};
  });
  return y;
}

const Operator& kRelu = pointwise("relu", "relu(x)");
const Operator& kLeakyRelu = pointwise("leaky_relu", "leaky_relu(x, slope)");
const Operator& kElu = pointwise("elu", "elu(x)");
const Operator& kGelu = pointwise("gelu", "gelu(x)");
const Operator& kGeluTanh = pointwise("gelu_tanh", "gelu_tanh(x)");
const Operator& kSilu = pointwise("silu", "silu(x)");
const Operator& kSigmoid = pointwise("sigmoid", "sigmoid(x)");
const Operator& kSoftplus = pointwise("softplus", "softplus(x)");
const Operator& kTanh = pointwise("tanh", "tanh(x)");
const Operator& kExp = pointwise("exp", "exp(x)");
const Operator& kLog = pointwise("log", "log(x)");
const Operator& kSqrt = pointwise("sqrt", "sqrt(x)");
const Operator& kSquare = pointwise("square", "square(x)");
const Operator& kAbs = pointwise("abs", "abs(x)");
const Operator& kNeg = pointwise("neg", "neg(x)");
const Operator& kAddScalar = pointwise("add_scalar", "add(x, scalar)");
const Operator& kMulScalar = pointwise("mul_scalar", "mul(x, scalar)");
const Operator& kClamp = pointwise("clamp", "clamp(x, low, high)");

}  // namespace

Tensor relu(const Tensor& x) {
  return unary(kRelu, x, Relu{});
}
Tensor leaky_relu(const Tensor& x, double slope) {
  return unary(kLeakyRelu, x, LeakyRelu{slope});
}
Tensor elu(const Tensor& x) {
  return unary(kElu, x, Elu{});
}
Tensor gelu(const Tensor& x) {
  return unary(kGelu, x, Gelu{});
}
Tensor gelu_tanh(const Tensor& x) {
  return unary(kGeluTanh, x, GeluTanh{});
}
Tensor silu(const Tensor& x) {
  return unary(kSilu, x, Silu{});
}
Tensor sigmoid(const Tensor& x) {
  return unary(kSigmoid, x, Sigmoid{});
}
Tensor softplus(const Tensor& x) {
  return unary(kSoftplus, x, Softplus{});
}
Tensor tanh(const Tensor& x) {
  return unary(kTanh, x, Tanh{});
}
Tensor exp(const Tensor& x) {
  return unary(kExp, x, Exp{});
}
Tensor log(const Tensor& x) {
  return unary(kLog, x, Log{});
}
Tensor sqrt(const Tensor& x) {
  return unary(kSqrt, x, Sqrt{});
}
Tensor square(const Tensor& x) {
  return unary(kSquare, x, Square{});
}
Tensor abs(const Tensor& x) {
  return unary(kAbs, x, Abs{});
}
Tensor neg(const Tensor& x) {
  return unary(kNeg, x, MulScalar{-1.0});
}
Tensor add(const Tensor& x, double scalar) {
  return unary(kAddScalar, x, AddScalar{scalar});
}
Tensor mul(const Tensor& x, double scalar) {
  return unary(kMulScalar, x, MulScalar{scalar});
}
Tensor clamp(const Tensor& x, double low, double high) {
  return unary(kClamp, x, Clamp{low, high});
}

}  // namespace tessera
