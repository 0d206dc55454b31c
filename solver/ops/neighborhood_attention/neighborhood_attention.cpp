#include "solver/ops/neighborhood_attention/neighborhood_attention.hpp"

#include <cmath>

#include "parallel/exchange_plan.hpp"
#include "solver/ops/layout_builder.hpp"
#include "solver/ops/neighborhood_attention/kernel.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace neighborhood {
namespace {

struct Operands {
  Tensor q, k, v;
};

void check(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto bad = [](const char* what, const Tensor& t, const Tensor& other) {
    fail(ExitCode::internal, "neighborhood_attention",
         "{}: found {}, expected (B, *grid, heads, d) fitting {}", what, describe(t), describe(other));
  };
  if (q.ndim() < 4 || q.ndim() > 6) bad("q", q, k);
  if (k.shape() != q.shape() || k.dtype() != q.dtype()) bad("k", k, q);
  bool fits = v.ndim() == q.ndim() && v.dtype() == q.dtype();
  for (int d = 0; fits && d + 1 < q.ndim(); ++d) fits = v.dim(d) == q.dim(d);
  if (!fits) bad("v", v, q);
}

/// The windows of each of the three axes; the grid's own are the last ones.
void make_axes(const Tensor& q, const NeighborhoodOptions& options, Axis (&axes)[kAxes]) {
  const int grid = q.ndim() - 3;
  const auto value = [&](const Shape& of, int g, const char* what) {
    if (of.size() != 1 && of.size() != grid) {
      fail(ExitCode::usage, "neighborhood_attention", "{}: found {}, expected 1 or {} values", what,
           to_string(of), grid);
    }
    return of[of.size() == 1 ? 0 : g];
  };
  for (int g = 0; g < grid; ++g) {
    Axis& axis = axes[kAxes - grid + g];
    axis = {q.dim(1 + g), value(options.kernel_size, g, "kernel_size"),
            value(options.dilation, g, "dilation")};
    if (axis.kernel < 1 || axis.kernel % 2 == 0 || axis.dilation < 1) {
      fail(ExitCode::usage, "neighborhood_attention",
           "found kernel size {} and dilation {}, expected an odd kernel size and a dilation of at least 1",
           axis.kernel, axis.dilation);
    }
    if (axis.kernel * axis.dilation > axis.n) {
      fail(ExitCode::usage, "neighborhood_attention",
           "grid axis {}: found {} points, expected at least {} (kernel size {}, "
           "dilation {})",
           g, axis.n, axis.kernel * axis.dilation, axis.kernel, axis.dilation);
    }
  }
}

/// Nothing pending and no cut head size.
Layout usable(const Tensor& t, const Mesh& mesh) {
  LayoutBuilder target(mesh, t.shape());
  for (int a = 0; t.is_shard() && a < mesh.axes(); ++a) {
    const Placement& p = t.layout().placement(a);
    if (p.is_shard() && p.dim != t.ndim() - 1) target.like(t.layout(), a);
  }
  return target.build();
}

/// q cut as `other` is where q is whole.
Layout followed(const Layout& q, const Layout& other) {
  LayoutBuilder target(q.mesh(), q.shape());
  for (int a = 0; a < q.mesh().axes(); ++a) {
    const Placement &own = q.placement(a), &theirs = other.placement(a);
    const bool takes = own.is_replicate() && theirs.is_shard() && !q.is_sharded(theirs.dim);
    target.like(takes ? other : q, a);
  }
  return target.build();
}

/// Where q is whole it takes k's layout, so that no two ranks do the same work for a key that a third one
/// owns. What is still cut where q is whole, is cut along a dimension that q cuts on another axis: it is made
/// whole.
std::optional<Sharding> neighborhood_rule(std::span<const Tensor> operands, const std::any&) {
  const Mesh mesh = mesh_of(operands);
  Layout q = usable(operands[0], mesh), k = usable(operands[1], mesh), v = usable(operands[2], mesh);
  q = followed(followed(q, k), v);
  for (Layout* l : {&k, &v}) {
    for (int a = 0; a < mesh.axes(); ++a) {
      if (!q.placement(a).is_shard()) *l = l->with_placement(a, Replicate());
    }
  }
  return Sharding{{q, k, v}, {}};
}

const Operator& kNeighborhoodAttention =
    register_operator({.name = "neighborhood_attention",
                       .signature = "neighborhood_attention(q, k, v, options)",
                       .family = "attention",
                       .cuts = {{"batch"}, {"grid", Moves::halo}, {"heads"}, {"head size", Moves::gather}},
                       .rule = neighborhood_rule});

/// The box of keys that the queries in `box` see.
NeedMap need_of_windows(const Axis (&axes)[kAxes], Box box, Index depth) {
  const int grid = box.size() - 3;
  for (int g = 0; g < grid; ++g) box[1 + g] = axes[kAxes - grid + g].needed(box[1 + g]);
  box.back() = {0, depth};
  if (box.is_empty()) {
    for (Range& r : box) r = {0, 0};
  }
  NeedMap need;
  for (const Range& r : box) need.push_back(map_identity(r));
  return need;
}

ExchangePlan plan_of(const Tensor& source, const Tensor& q, const Axis (&axes)[kAxes]) {
  if (!source.is_shard())
    return {source.shape(), need_of_windows(axes, Box::whole(q.shape()), source.dim(-1))};
  return {source.layout(),
          [&](int rank) { return need_of_windows(axes, q.layout().box(rank), source.dim(-1)); }};
}

/// Of k or v: its cut points, and addends on the axes where it is whole and the queries are cut.
Layout gradient_layout(const Tensor& t, const Tensor& q) {
  if (!t.is_shard()) return {};
  LayoutBuilder layout(t.layout().mesh(), t.shape());
  for (int a = 0; a < t.layout().mesh().axes(); ++a) {
    if (t.layout().placement(a).is_shard())
      layout.like(t.layout(), a);
    else if (q.layout().placement(a).is_shard())
      layout.partial(a);
  }
  return layout.build();
}

Problem make_problem(const Tensor& q, const Tensor& v, const Axis (&axes)[kAxes],
                     std::optional<double> scale) {
  const Box box = q.is_shard() ? q.layout().local_box() : Box::whole(q.shape());
  const int grid = q.ndim() - 3;
  Range ranges[kAxes] = {{0, 1}, {0, 1}, {0, 1}};
  for (int g = 0; g < grid; ++g) ranges[kAxes - grid + g] = box.is_empty() ? Range{0, 0} : box[1 + g];
  Problem p;
  p.windows = make_windows(axes, ranges);
  p.batch = box.is_empty() ? 0 : box[0].size();
  p.heads = box.is_empty() ? 0 : box[q.ndim() - 2].size();
  p.d = q.dim(-1);
  p.dv = v.dim(-1);
  p.scale = scale.value_or(1.0 / std::sqrt(static_cast<double>(p.d)));
  return p;
}

/// Sends the region's gradients back to the owners, adding up in the type of arithmetic.
template <typename T>
Tensor returned(const ExchangePlan& plan, const DeviceArray<Compute<T>>& region, const Tensor& owner,
                const Layout& layout) {
  using A = Compute<T>;
  const DeviceArray<A> sums(owner.local_count());
  sums.zero();
  plan.adjoint(region.data(), sums.data(), dtype_of<A>);
  const Tensor gradient = Tensor::empty(layout, owner.shape(), dtype_of<T>);
  T* out = gradient.data<T>();
  const A* in = sums.data();
  for_each(
      "neighborhood_attention_narrow", sums.count(), KOKKOS_LAMBDA(Index i) { store(out[i], in[i]); });
  return gradient;
}

template <typename T>
Tensor run(const Problem& p, const Operands& x, const ExchangePlan& k_plan, const ExchangePlan& v_plan) {
  using A = Compute<T>;
  const DeviceArray<T> k(count(k_plan.destination_shape())), v(count(v_plan.destination_shape()));
  auto k_motion = k_plan.start(x.k.raw(), k.data(), dtype_of<T>);
  auto v_motion = v_plan.start(x.v.raw(), v.data(), dtype_of<T>);
  k_motion.finish();
  v_motion.finish();
  Shape out_shape = x.q.shape();
  out_shape.back() = p.dv;
  Layout out_layout;
  if (x.q.is_shard()) {
    LayoutBuilder layout(x.q.layout().mesh(), out_shape);
    for (int a = 0; a < x.q.layout().mesh().axes(); ++a) layout.like(x.q.layout(), a);
    out_layout = layout.build();
  }
  Tensor y = Tensor::empty(out_layout, out_shape, dtype_of<T>);
  const DeviceArray<A> lse(p.batch * p.queries() * p.heads);
  forward(p, x.q.data<T>(), k.data(), v.data(), y.data<T>(), lse.data());

  const Layout dk_layout = gradient_layout(x.k, x.q), dv_layout = gradient_layout(x.v, x.q);
  record(
      "neighborhood_attention", {x.q, x.k, x.v}, y,
      [=, q_in = x.q.detach(), k_in = x.k.detach(), v_in = x.v.detach(), out = y.detach()](const Tensor& gy) {
        const BackwardInputs<T, A> in{q_in.template data<T>(), k.data(),  v.data(), out.template data<T>(),
                                      gy.template data<T>(),   lse.data()};
        const Tensor dq = Tensor::empty_like(q_in);
        const DeviceArray<A> dk(k.count()), dv(v.count());
        backward(p, in, dq.template data<T>(), dk.data(), dv.data());
        return Gradients{dq, returned<T>(k_plan, dk, k_in, dk_layout),
                         returned<T>(v_plan, dv, v_in, dv_layout)};
      });
  return y;
}

}  // namespace
}  // namespace neighborhood

Tensor neighborhood_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const NeighborhoodOptions& options) {
  using namespace neighborhood;
  check(q, k, v);
  Axis axes[kAxes];
  make_axes(q, options, axes);
  const OperatorCall call(kNeighborhoodAttention, {q, k, v});
  const Operands x{call.on_mesh(0), call.on_mesh(1), call.on_mesh(2)};
  const Problem problem = make_problem(x.q, x.v, axes, options.scale);
  const ExchangePlan k_plan = plan_of(x.k, x.q, axes), v_plan = plan_of(x.v, x.q, axes);
  return dispatch_floating(q.dtype(), "neighborhood_attention", [&](auto* tag) {
    return run<std::remove_pointer_t<decltype(tag)>>(problem, x, k_plan, v_plan);
  });
}

}  // namespace tessera
