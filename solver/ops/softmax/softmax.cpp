#include "solver/ops/softmax/softmax.hpp"

#include <limits>

#include "solver/ops/device_array.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

/// x as (outer, extent, inner), the middle being the dimension of the softmax.
struct Rows {
  Index outer = 1, extent = 1, inner = 1;
  Index count() const { return outer * inner; }
};

Rows rows_of(const Shape& local, int dim) {
  Rows rows;
  for (int d = 0; d < local.size(); ++d)
    (d < dim ? rows.outer : d == dim ? rows.extent : rows.inner) *= local[d];
  return rows;
}

// Statistics are kept in double, one per row (outer, inner).

template <typename T>
void row_maxima(const Rows& n, double* top, const T* x) {
  for_each(
      "softmax_max", n.outer * n.inner, KOKKOS_LAMBDA(Index r) {
        const T* row = x + r / n.inner * n.extent * n.inner + r % n.inner;
        double largest = -std::numeric_limits<double>::infinity();
        for (Index e = 0; e < n.extent; ++e) {
          const double value = load(row[e * n.inner]);
          if (value > largest || value != value) largest = value;
        }
        top[r] = largest;
      });
}

template <typename T>
void row_sums(const Rows& n, double* sum, const double* top, const T* x) {
  using C = Compute<T>;
  for_each(
      "softmax_sum", n.outer * n.inner, KOKKOS_LAMBDA(Index r) {
        const T* row = x + r / n.inner * n.extent * n.inner + r % n.inner;
        double total = 0;
        for (Index e = 0; e < n.extent; ++e) total += std::exp(load(row[e * n.inner]) - C(top[r]));
        sum[r] = total;
      });
}

template <typename T>
void normalise(const Rows& n, T* y, const T* x, const double* top, const double* sum, bool logarithm) {
  using C = Compute<T>;
  for_each(
      "softmax", n.outer * n.extent, KOKKOS_LAMBDA(Index job) {
        const Index first = job / n.extent * n.inner;
        for (Index i = 0; i < n.inner; ++i) {
          const C above = load(x[job * n.inner + i]) - C(top[first + i]);
          store(y[job * n.inner + i],
                logarithm ? above - C(std::log(sum[first + i])) : C(std::exp(above) / sum[first + i]));
        }
      });
}

/// Sums of g y, or, for the logarithm, of g.
template <typename T>
void gradient_sums(const Rows& n, double* sum, const T* g, const T* y, bool logarithm) {
  for_each(
      "softmax_gradient_sum", n.outer * n.inner, KOKKOS_LAMBDA(Index r) {
        const Index first = r / n.inner * n.extent * n.inner + r % n.inner;
        double total = 0;
        for (Index e = 0; e < n.extent; ++e) {
          const Index at = first + e * n.inner;
          total += double(load(g[at])) * (logarithm ? 1.0 : double(load(y[at])));
        }
        sum[r] = total;
      });
}

/// gx = y (g - sum), or g - exp(y) sum.
template <typename T>
void input_gradient(const Rows& n, T* gx, const T* g, const T* y, const double* sum, bool logarithm) {
  using C = Compute<T>;
  for_each(
      "softmax_gradient", n.outer * n.extent, KOKKOS_LAMBDA(Index job) {
        const Index first = job / n.extent * n.inner;
        for (Index i = 0; i < n.inner; ++i) {
          const Index at = job * n.inner + i;
          const C s = C(sum[first + i]), value = load(y[at]);
          store(gx[at], logarithm ? load(g[at]) - std::exp(value) * s : value * (load(g[at]) - s));
        }
      });
}

/// Reduces row statistics over the mesh axis that cuts the dimension, if one does.
void over_mesh(const Tensor& x, int dim, const DeviceArray<double>& rows, ReduceOp op) {
  const int axis = x.is_shard() ? x.layout().mesh_axis_of(dim) : -1;
  if (axis >= 0) all_reduce(x.layout().mesh().axis_comm(axis), rows, op);
}

const Operator& normaliser(const char* name) {
  return register_operator({.name = name,
                            .signature = std::string(name) + "(x, dim)",
                            .family = "reductions",
                            .cuts = {{"dim", Moves::reduction}, {"other"}},
                            .rule = keep_rule()});
}
const Operator& kSoftmax = normaliser("softmax");
const Operator& kLogSoftmax = normaliser("log_softmax");

Tensor run(const Operator& entry, const Tensor& x_in, int dim_in, bool logarithm) {
  const OperatorCall call(entry, {x_in});
  const char* name = call.name();
  const Tensor& x = call[0];
  const int dim = dim_in < 0 ? dim_in + x.ndim() : dim_in;
  if (dim < 0 || dim >= x.ndim()) {
    fail(ExitCode::usage, name, "dimension {} outside {}", dim_in, to_string(x.shape()));
  }
  const Rows n = rows_of(x.local_shape(), dim);
  Tensor y = Tensor::empty_like(x);
  const DeviceArray<double> top(n.count()), sum(n.count());
  dispatch_floating(x.dtype(), name, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    row_maxima(n, top.data(), x.data<T>());
    over_mesh(x, dim, top, ReduceOp::max);
    row_sums(n, sum.data(), top.data(), x.data<T>());
    over_mesh(x, dim, sum, ReduceOp::sum);
    normalise(n, y.data<T>(), x.data<T>(), top.data(), sum.data(), logarithm);
  });
  record(name, {x}, y, [name, dim, logarithm, n, y](const Tensor& g) {
    const Tensor gx = Tensor::empty_like(g);
    const DeviceArray<double> total(n.count());
    dispatch_floating(g.dtype(), name, [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      gradient_sums(n, total.data(), g.data<T>(), y.data<T>(), logarithm);
      over_mesh(g, dim, total, ReduceOp::sum);
      input_gradient(n, gx.data<T>(), g.data<T>(), y.data<T>(), total.data(), logarithm);
    });
    return Gradients{gx};
  });
  return y;
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) {
  return run(kSoftmax, x, dim, false);
}

Tensor log_softmax(const Tensor& x, int dim) {
  return run(kLogSoftmax, x, dim, true);
}

}  // namespace tessera
