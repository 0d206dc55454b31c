#include "solver/ops/norm/affine.hpp"
#include "solver/ops/norm/column_kernels.hpp"
#include "solver/ops/norm/norm.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

using namespace norm;

/// One normalisation with statistics per channel or group: what is averaged over, and with whom.
struct Problem {
  const char* op = "";
  Columns columns;
  CommGroups comms;
  bool constant_statistics = false;  ///< evaluation: mean and variance are not functions of x
  bool gelu = false;                 ///< the result is gelu(normalised + residual)
  Tensor residual = {};              ///< laid out as x; undefined: none
};

/// x (B, *grid, C) seen as (samples, rows, channels); `per_sample` keeps the samples apart.
Columns columns_of(const Tensor& x, bool per_sample) {
  const Shape& s = x.local_shape();
  Columns v;
  v.samples = per_sample ? s[0] : 1;
  v.rows = per_sample ? 1 : s[0];
  for (int d = 1; d + 1 < s.size(); ++d) v.rows *= s[d];
  v.channels = s.back();
  v.groups = v.channels;
  return v;
}

void check(const char* op, const Tensor& x, int least_dims) {
  if (x.ndim() < least_dims) {
    fail(ExitCode::internal, op, "x: found {}, expected (B, *grid, C)", describe(x));
  }
}

template <typename T>
const T* data_or_null(const Tensor& t) {
  return t ? t.data<T>() : nullptr;
}

template <typename T>
void record_norm(const Problem& p, const Tensor& x, const Affine& affine,
                 const ColumnStats<Compute<T>>& stats, const DeviceArray<Moment>& moments, Tensor& y) {
  using A = Compute<T>;
  std::vector<Tensor> inputs{x};
  const int at_weight = affine.weight ? 1 : 0, at_bias = affine.bias ? 1 + at_weight : 0;
  if (affine.weight) inputs.push_back(affine.weight);
  if (affine.bias) inputs.push_back(affine.bias);
  if (p.residual) inputs.push_back(p.residual);
  const std::size_t n_inputs = inputs.size();
  const bool want_x = x.requires_grad(), want_w = affine.weight && affine.weight.requires_grad(),
             want_b = affine.bias && affine.bias.requires_grad();
  const DType w_type = affine.weight ? affine.weight.dtype() : x.dtype();
  const DType b_type = affine.bias ? affine.bias.dtype() : x.dtype();
  record(p.op, inputs, y,
         [=, x = x.detach(), residual = p.residual ? p.residual.detach() : Tensor(), w = affine.local_weight,
          b = affine.local_bias, layout = affine.gradient, shape = affine.shape](const Tensor& gy_in) {
           const T* x_data = x.template data<T>();
           const A* w_data = w.template data<A>();
           const Tensor gy = p.gelu ? Tensor::empty_like(x) : gy_in;
           if (p.gelu) {
             column_gelu(p.columns, x_data, data_or_null<T>(residual), stats, w_data, b.template data<A>(),
                         gy_in.template data<T>(), gy.template data<T>());
           }
           const T* gy_data = gy.template data<T>();
           const DeviceArray<double> sums = column_sums(p.columns, x_data, gy_data, stats);
           Gradients grads(n_inputs);
           if (want_w || want_b) {
             const Tensor dw = Tensor::empty(layout, shape, dtype_of<A>),
                          db = Tensor::empty(layout, shape, dtype_of<A>);
             column_affine(p.columns, sums.data(), dw.template data<A>(), db.template data<A>());
             if (want_w) grads[static_cast<std::size_t>(at_weight)] = dw.to(w_type);
             if (want_b) grads[static_cast<std::size_t>(at_bias)] = db.to(b_type);
           }
           if (want_x) {
             DeviceArray<double> totals;
             if (!p.constant_statistics) {
               totals = group_sums(p.columns, sums.data(), w_data);
               sum_over(p.comms, totals);
             }
             grads[0] = Tensor::empty_like(x);
             column_dx(p.columns, x_data, gy_data, stats, w_data, totals.data(), moments.data(),
                       grads[0].template data<T>());
           }
           if (residual) grads.back() = gy;
           return grads;
         });
}

/// `moments` (samples, groups) of the global values.
Tensor normalise(const Problem& p, const Tensor& x, const Affine& affine, const DeviceArray<Moment>& moments,
                 double eps) {
  Tensor y = Tensor::empty_like(x);
  dispatch_floating(x.dtype(), p.op, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    using A = Compute<T>;
    const ColumnStats<A> stats = column_stats<A>(p.columns, moments.data(), eps);
    const A *w = affine.local_weight.data<A>(), *b = affine.local_bias.data<A>();
    if (p.gelu) {
      column_gelu<T>(p.columns, x.data<T>(), data_or_null<T>(p.residual), stats, w, b, nullptr, y.data<T>());
    } else {
      column_normalise(p.columns, x.data<T>(), stats, w, b, y.data<T>());
    }
    record_norm<T>(p, x, affine, stats, moments, y);
  });
  return y;
}

DeviceArray<Moment> global_moments(const Problem& p, const Tensor& x) {
  DeviceArray<Moment> moments(p.columns.samples * p.columns.groups);
  dispatch_floating(x.dtype(), p.op, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    column_moments(p.columns, x.data<T>(), moments.data());
  });
  merge_over(p.comms, moments);
  return moments;
}

/// running = (1 - momentum) running + momentum * new, the variance times count / (count - 1).
template <typename T>
void update_running(const DeviceArray<Moment>& moments, double momentum, T* mean, T* variance) {
  const Moment* m = moments.data();
  for_each(
      "batch_norm_running", moments.count(), KOKKOS_LAMBDA(Index c) {
        mean[c] = static_cast<T>((1 - momentum) * static_cast<double>(mean[c]) + momentum * m[c].mean);
        const double unbiased = m[c].m2 / (m[c].count - 1);
        variance[c] = static_cast<T>((1 - momentum) * static_cast<double>(variance[c]) + momentum * unbiased);
      });
}

template <typename T>
void moments_from_running(const T* mean, const T* variance, const DeviceArray<Moment>& moments) {
  Moment* m = moments.data();
  for_each(
      "batch_norm_fixed", moments.count(), KOKKOS_LAMBDA(Index c) {
        m[c] = Moment{1, static_cast<double>(mean[c]), static_cast<double>(variance[c])};
      });
}

/// Calls body with the pointers to mean and variance in their type, at the first local channel.
template <typename Body>
void with_running(const Tensor& mean, const Tensor& variance, Index first, const Body& body) {
  if (mean.dtype() == DType::f64)
    body(mean.data<double>() + first, variance.data<double>() + first);
  else
    body(mean.data<float>() + first, variance.data<float>() + first);
}

void check_running(const Tensor& x, const Tensor& mean, const Tensor& variance, bool training) {
  const auto fits = [&](const Tensor& t) {
    return t && !t.is_shard() && t.shape() == Shape{x.dim(-1)} && t.dtype() == mean.dtype();
  };
  if (!training && !mean)
    fail(ExitCode::internal, "batch_norm", "found no running statistics, expected them in evaluation");
  if ((mean || variance) && !(fits(mean) && fits(variance))) {
    fail(ExitCode::internal, "batch_norm",
         "running statistics: found {}, expected two plain tensors of {} channels",
         mean ? describe(mean) : "none", x.dim(-1));
  }
}

/// Values per channel; with replicas, all of them have some.
void check_count(const Tensor& x, const CommPtr& replicas) {
  const Index channels = x.dim(-1), found = channels > 0 ? count(x.shape()) / channels : 0;
  if (channels > 0 && found * (replicas ? replicas->size() : 1) < 2) {
    fail(ExitCode::usage, "batch_norm", "found {} value per channel, expected at least 2 when training",
         found);
  }
}

void check_groups(const char* op, const Tensor& x, Index groups, const Tensor& weight, const Tensor& bias) {
  check(op, x, 2);
  if (groups < 1 || x.dim(-1) % groups != 0) {
    fail(ExitCode::usage, op, "groups: found {}, expected a divisor of {} channels", groups, x.dim(-1));
  }
  check_affine(op, Shape{x.dim(-1)}, weight, bias);
}

/// Operands x, weight, bias and, with `gelu`, residual.
Tensor normalise_groups(const OperatorCall& call, Index groups, double eps, bool gelu) {
  const Tensor x = call.on_mesh(0);
  const Index channels = x.dim(-1);
  Problem p{.op = call.name(), .columns = columns_of(x, true), .comms = groups_over(x.layout(), 1, x.ndim())};
  p.gelu = gelu;
  if (gelu && call[3]) p.residual = call.on_mesh(3);
  p.columns.groups = groups;
  p.columns.channels_per_group = channels / groups;
  if (x.is_shard()) p.columns.first_channel = x.layout().local_box().back().lo;
  return normalise(p, x, make_affine(call, Shape{channels}), global_moments(p, x), eps);
}

const Operator& kGroupNorm =
    normalisation("group_norm", "group_norm(x, groups, weight, bias, eps)",
                  {{"batch"}, {"grid", Moves::exchange}, {"channels", Moves::exchange}});
const Operator& kGroupNormGelu =
    normalisation("group_norm_gelu", "group_norm_gelu(x, groups, weight, bias, residual, eps)",
                  {{"batch"}, {"grid", Moves::exchange}, {"channels", Moves::exchange}});
const Operator& kInstanceNorm = normalisation("instance_norm", "instance_norm(x, weight, bias, eps)",
                                              {{"batch"}, {"grid", Moves::exchange}, {"channels"}});
const Operator& kBatchNorm =
    normalisation("batch_norm", "batch_norm(x, running_mean, running_var, weight, bias, options)",
                  {{"batch", Moves::exchange}, {"grid", Moves::exchange}, {"channels", Moves::gather}});

}  // namespace

Tensor group_norm(const Tensor& x, Index groups, const Tensor& weight, const Tensor& bias, double eps) {
  check_groups("group_norm", x, groups, weight, bias);
  return normalise_groups(OperatorCall(kGroupNorm, {x, weight, bias}, NormParameters{}), groups, eps, false);
}

Tensor group_norm_gelu(const Tensor& x, Index groups, const Tensor& weight, const Tensor& bias,
                       const Tensor& residual, double eps) {
  check_groups("group_norm_gelu", x, groups, weight, bias);
  if (residual && (residual.shape() != x.shape() || residual.dtype() != x.dtype())) {
    fail(ExitCode::internal, "group_norm_gelu", "residual: found {}, expected the shape and type of {}",
         describe(residual), describe(x));
  }
  return normalise_groups(OperatorCall(kGroupNormGelu, {x, weight, bias, residual}, NormParameters{}), groups,
                          eps, true);
}

Tensor instance_norm(const Tensor& x_in, const Tensor& weight, const Tensor& bias, double eps) {
  check("instance_norm", x_in, 3);
  check_affine("instance_norm", Shape{x_in.dim(-1)}, weight, bias);
  const OperatorCall call(kInstanceNorm, {x_in, weight, bias}, NormParameters{});
  const Tensor x = call.on_mesh(0);
  const Problem p{.op = "instance_norm",
                  .columns = columns_of(x, true),
                  .comms = groups_over(x.layout(), 1, x.ndim() - 1)};
  const Affine affine = make_affine(call, Shape{x.dim(-1)});
  return normalise(p, x, affine, global_moments(p, x), eps);
}

Tensor batch_norm(const Tensor& x_in, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, const BatchNormOptions& options) {
  check("batch_norm", x_in, 2);
  check_running(x_in, running_mean, running_var, options.training);
  check_affine("batch_norm", Shape{x_in.dim(-1)}, weight, bias);
  // Every rank updates the running statistics of all channels.
  const bool whole_channels = options.training && running_mean;
  const OperatorCall call(kBatchNorm, {x_in, weight, bias}, NormParameters{.whole_channels = whole_channels});
  const Tensor x = call.on_mesh(0);
  Problem p{
      .op = "batch_norm", .columns = columns_of(x, false), .comms = groups_over(x.layout(), 0, x.ndim() - 1)};
  p.constant_statistics = !options.training;
  if (options.replicas) p.comms.push_back(options.replicas);
  const Affine affine = make_affine(call, Shape{x.dim(-1)});
  const Index first = x.is_shard() ? x.layout().local_box().back().lo : 0;
  DeviceArray<Moment> moments;
  if (options.training) {
    check_count(x, options.replicas);
    moments = global_moments(p, x);
    if (running_mean) {
      with_running(running_mean, running_var, first, [&](auto* mean, auto* variance) {
        update_running(moments, options.momentum, mean, variance);
      });
    }
  } else {
    moments = DeviceArray<Moment>(p.columns.groups);
    with_running(running_mean, running_var, first,
                 [&](auto* mean, auto* variance) { moments_from_running(mean, variance, moments); });
  }
  return normalise(p, x, affine, moments, options.eps);
}

}  // namespace tessera
