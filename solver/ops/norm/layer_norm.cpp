#include "parallel/comm_stats.hpp"
#include "solver/ops/norm/affine.hpp"
#include "solver/ops/norm/norm.hpp"
#include "solver/ops/norm/row_kernels.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

using namespace norm;

struct RowsView {
  Index rows = 1;
  Index length = 1;
};

RowsView rows_view(const Tensor& x, int normalized) {
  RowsView view;
  for (int d = 0; d < x.ndim(); ++d) {
    (d < x.ndim() - normalized ? view.rows : view.length) *= x.local_shape()[d];
  }
  return view;
}

template <typename T>
RowStats<Compute<T>> layer_norm_forward(const Tensor& x, const RowsView& v, const CommGroups& groups,
                                        const Affine& affine, double eps, const Tensor& y) {
  using A = Compute<T>;
  const A* w = affine.local_weight.data<A>();
  const A* b = affine.local_bias.data<A>();
  if (groups.empty()) return row_moments_and_normalise(v.rows, v.length, x.data<T>(), eps, w, b, y.data<T>());
  const DeviceArray<Moment> moments(v.rows);
  row_moments(v.rows, v.length, x.data<T>(), moments.data());
  merge_over(groups, moments);
  RowStats<A> stats = row_stats<A>(moments, eps);
  row_normalise(v.rows, v.length, x.data<T>(), stats, w, b, y.data<T>());
  return stats;
}

template <typename T>
Tensor layer_norm_dx(const RowBackward<T, Compute<T>>& in, const CommGroups& groups, const Tensor& like) {
  const Tensor dx = Tensor::empty_like(like);
  if (groups.empty()) {
    rows_dx<T, Compute<T>>(in, nullptr, dx.data<T>());
  } else {
    const DeviceArray<double> sums(2 * in.rows);
    rows_sums(in, sums.data());
    // One sum per row: too many for every rank to see those of all others.
    for (const CommPtr& comm : groups) all_reduce(*comm, sums, ReduceOp::sum);
    rows_dx(in, sums.data(), dx.data<T>());
  }
  return dx;
}

const Operator& kLayerNorm = normalisation("layer_norm", "layer_norm(x, normalized_shape, weight, bias, eps)",
                                           {{"leading"}, {"normalized", Moves::reduction}});

}  // namespace

Tensor layer_norm(const Tensor& x_in, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const int trailing = normalized_shape.size(), first = x_in.ndim() - trailing;
  bool fits = first >= 0;
  for (int d = 0; fits && d < trailing; ++d) fits = x_in.dim(first + d) == normalized_shape[d];
  if (!fits) {
    fail(ExitCode::internal, "layer_norm", "x: found {}, expected trailing dimensions {}", describe(x_in),
         to_string(normalized_shape));
  }
  check_affine("layer_norm", normalized_shape, weight, bias);
  const OperatorCall call(kLayerNorm, {x_in, weight, bias}, NormParameters{.trailing = trailing});
  const Tensor x = call.on_mesh(0);
  const Affine affine = make_affine(call, normalized_shape);
  const CommGroups groups = groups_over(x.layout(), first, x.ndim());
  const RowsView view = rows_view(x, trailing);
  Tensor y = Tensor::empty_like(x);

  std::vector<Tensor> inputs{x};
  const int at_weight = affine.weight ? 1 : 0, at_bias = affine.bias ? 1 + at_weight : 0;
  if (affine.weight) inputs.push_back(affine.weight);
  if (affine.bias) inputs.push_back(affine.bias);
  const std::size_t n_inputs = inputs.size();
  const bool want_x = x.requires_grad(), want_w = affine.weight && affine.weight.requires_grad(),
             want_b = affine.bias && affine.bias.requires_grad();
  const DType w_type = affine.weight ? affine.weight.dtype() : x.dtype();
  const DType b_type = affine.bias ? affine.bias.dtype() : x.dtype();

  dispatch_floating(x.dtype(), "layer_norm", [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    using A = Compute<T>;
    const RowStats<A> stats = layer_norm_forward<T>(x, view, groups, affine, eps, y);
    record("layer_norm", inputs, y,
           [=, x = x.detach(), w = affine.local_weight, layout = affine.gradient,
            shape = affine.shape](const Tensor& gy) {
             const RowBackward<T, A> in{view.rows,
                                        view.length,
                                        x.template data<T>(),
                                        gy.template data<T>(),
                                        w.template data<A>(),
                                        stats.mean.data(),
                                        stats.rstd.data(),
                                        stats.inverse_count.data()};
             Gradients grads(n_inputs);
             if (want_x) grads[0] = layer_norm_dx<T>(in, groups, x);
             if (want_w || want_b) {
               const Tensor dw = Tensor::empty(layout, shape, dtype_of<A>),
                            db = Tensor::empty(layout, shape, dtype_of<A>);
               rows_affine(in, dw.template data<A>(), db.template data<A>());
               if (want_w) grads[static_cast<std::size_t>(at_weight)] = dw.to(w_type);
               if (want_b) grads[static_cast<std::size_t>(at_bias)] = db.to(b_type);
             }
             return grads;
           });
  });
  return y;
}

}  // namespace tessera
