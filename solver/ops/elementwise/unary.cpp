#include <numbers>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/elementwise/fast_math.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/redistribute.hpp"

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

struct Gelu {
  template <typename C>
  KOKKOS_INLINE_FUNCTION C value(C x) const {
    return C(0.5) * x * (C(1) + fast::erf(x * C(1 / std::numbers::sqrt2)));
  }
  template <typename C>
  KOKKOS_INLINE_FUNCTION C slope(C x) const {
    constexpr double density = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return C(0.5) * (C(1) + fast::erf(x * C(1 / std::numbers::sqrt2))) +
           x * C(density) * fast::exp(C(-0.5) * x * x);
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

template <typename Op>
Tensor unary(const char* name, const Tensor& input, Op op) {
  const Tensor x = reduce_partial(input);
  Tensor y = Tensor::empty_like(x);
  dispatch_floating(x.dtype(), name, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    apply(y.data<T>(), x.data<T>(), x.local_count(), op);
  });
  record(name, {x}, y, [name, op, x = x.detach()](const Tensor& gy) {
    Tensor gx = Tensor::empty_like(x);
    dispatch_floating(x.dtype(), name, [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      apply_slope(gx.data<T>(), gy.data<T>(), x.data<T>(), x.local_count(), op);
    });
    return Gradients{gx};
  });
  return y;
}

}  // namespace

Tensor relu(const Tensor& x) {
  return unary("relu", x, Relu{});
}
Tensor leaky_relu(const Tensor& x, double slope) {
  return unary("leaky_relu", x, LeakyRelu{slope});
}
Tensor elu(const Tensor& x) {
  return unary("elu", x, Elu{});
}
Tensor gelu(const Tensor& x) {
  return unary("gelu", x, Gelu{});
}
Tensor gelu_tanh(const Tensor& x) {
  return unary("gelu_tanh", x, GeluTanh{});
}
Tensor silu(const Tensor& x) {
  return unary("silu", x, Silu{});
}
Tensor sigmoid(const Tensor& x) {
  return unary("sigmoid", x, Sigmoid{});
}
Tensor softplus(const Tensor& x) {
  return unary("softplus", x, Softplus{});
}
Tensor tanh(const Tensor& x) {
  return unary("tanh", x, Tanh{});
}
Tensor exp(const Tensor& x) {
  return unary("exp", x, Exp{});
}
Tensor log(const Tensor& x) {
  return unary("log", x, Log{});
}
Tensor sqrt(const Tensor& x) {
  return unary("sqrt", x, Sqrt{});
}
Tensor square(const Tensor& x) {
  return unary("square", x, Square{});
}
Tensor abs(const Tensor& x) {
  return unary("abs", x, Abs{});
}
Tensor neg(const Tensor& x) {
  return unary("neg", x, MulScalar{-1.0});
}
Tensor add(const Tensor& x, double scalar) {
  return unary("add_scalar", x, AddScalar{scalar});
}
Tensor mul(const Tensor& x, double scalar) {
  return unary("mul_scalar", x, MulScalar{scalar});
}
Tensor clamp(const Tensor& x, double low, double high) {
  return unary("clamp", x, Clamp{low, high});
}

}  // namespace tessera
