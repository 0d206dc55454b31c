#include "solver/ops/linear/linear.hpp"

#include <utility>

#include "solver/ops/layout_builder.hpp"
#include "solver/ops/linear/gemm.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

void check(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto bad = [](const char* what, const Tensor& t, const std::string& expected) {
    fail(ExitCode::internal, "linear", "{}: found {}, expected {}", what, describe(t), expected);
  };
  if (weight.ndim() != 2) bad("weight", weight, "(Cout, Cin)");
  if (x.ndim() < 1 || x.dim(-1) != weight.dim(1))
    bad("x", x, "last dimension " + std::to_string(weight.dim(1)));
  if (bias && bias.shape() != Shape{weight.dim(0)})
    bad("bias", bias, "(" + std::to_string(weight.dim(0)) + ")");
  for (const Tensor& t : {x, weight, bias ? bias : x}) check_floating("linear", t);
}

/// The weight brought to what x's layout can use: on each axis Replicate, cut along Cout (x Replicate) or
/// along Cin as x is.
Layout fit_weight(const Layout& weight, const Layout& x) {
  if (!weight) return {};
  const int last = x.shape().size() - 1;
  LayoutBuilder target(x.mesh(), weight.shape());
  for (int a = 0; a < x.mesh().axes(); ++a) {
    const Placement w = weight.placement(a), p = x.placement(a);
    const bool by_rows = w == Shard(0) && p.is_replicate();
    const bool by_columns = w == Shard(1) && (p == Shard(last) || (p.is_replicate() && !x.is_sharded(last)));
    if (by_rows || by_columns) target.like(weight, a);
  }
  return target.build();
}

/// x cut along Cin where the weight is and x is Replicate or cut elsewhere along Cin; pending reductions
/// other than sums done.
Layout fit_input(const Layout& x, const Layout& weight) {
  const int last = x.shape().size() - 1;
  LayoutBuilder target(x.mesh(), x.shape());
  for (int a = 0; a < x.mesh().axes(); ++a) {
    const Placement p = x.placement(a);
    const bool follow = weight && weight.placement(a) == Shard(1);
    const bool pending = p.is_partial() && p.op != ReduceOp::sum;
    if (follow && (p.is_replicate() || p == Shard(last)))
      target.shard(a, last, weight.partition(a));
    else if (!pending)
      target.like(x, a);
  }
  return target.build();
}

/// Layouts of the result and of the gradients, from those of x and the fitted weight.
struct Results {
  Layout y, dx, dw, db;
  bool adds_bias = true;  ///< this rank adds the bias to its addend
};

/// `weight` is the fitted layout, none for a plain weight of `rows` (Cout) rows.
Results results_of(const Layout& x, const Layout& weight, Index rows) {
  const Mesh& mesh = x.mesh();
  const int last = x.shape().size() - 1;
  Shape y_shape = x.shape();
  y_shape[last] = rows;
  LayoutBuilder y(mesh, y_shape), dx(mesh, x.shape()), dw(mesh, Shape{rows, x.shape()[last]}),
      db(mesh, Shape{rows});
  Results rule;
  for (int a = 0; a < mesh.axes(); ++a) {
    const Placement p = x.placement(a);
    if (p.is_partial() || p == Shard(last)) {
      y.partial(a);
      if (mesh.coords()[a] != 0) rule.adds_bias = false;
      if (p.is_partial()) {
        dw.partial(a);
      } else {
        dx.like(x, a);
        dw.shard(a, 1, x.partition(a));
      }
    } else if (p.is_shard()) {
      y.like(x, a);
      dx.like(x, a);
      dw.partial(a);
      db.partial(a);
    } else if (weight && weight.placement(a) == Shard(0)) {
      const Partition& cuts = weight.partition(a);
      y.shard(a, last, cuts);
      dx.partial(a);
      dw.shard(a, 0, cuts);
      db.shard(a, 0, cuts);
    }
  }
  rule.y = y.build();
  rule.dx = dx.build();
  rule.dw = dw.build();
  rule.db = db.build();
  return rule;
}

/// A plain x counts as Replicate on the mesh of its weight.
std::optional<Sharding> linear_rule(std::span<const Tensor> operands, const std::any&) {
  const Tensor &x = operands[0], &weight = operands[1], &bias = operands[2];
  const Layout from = layout_on(mesh_of(operands), x);
  const Layout w = fit_weight(weight.layout(), from), fitted = fit_input(from, w);
  const Results results = results_of(fitted, w, weight.dim(0));
  return Sharding{{fitted, w, bias && bias.is_shard() ? results.db.reduced() : Layout()}, results.y};
}

const Operator& kLinear = register_operator({.name = "linear",
                                             .signature = "linear(x, weight, bias)",
                                             .family = "products",
                                             .cuts = {{"leading"}, {"features", Moves::partial}},
                                             .rule = linear_rule});

/// What a rank multiplies: x (rows, in), the weight's rows `out` and columns [first, first + in).
struct Local {
  Index rows = 0, in = 0, out = 0;
  Index weight_columns = 0;  ///< stored row length of the weight
  Index first = 0;
  Index bias_first = 0;
};

Local measure(const Tensor& x, const Tensor& weight, const Tensor& y) {
  Local l;
  l.in = x.local_shape().back();
  l.out = y.local_shape().back();
  l.rows = 1;
  for (int d = 0; d + 1 < x.ndim(); ++d) l.rows *= x.local_shape()[d];
  l.weight_columns = weight.local_shape()[1];
  if (x.is_shard()) {
    if (l.weight_columns != l.in) l.first = x.layout().local_box().back().lo;
    l.bias_first = y.layout().local_box().back().lo;
  }
  return l;
}

std::byte* at(const Tensor& t, Index first) {
  return static_cast<std::byte*>(t.raw()) + first * static_cast<Index>(size_of(t.dtype()));
}

}  // namespace

Tensor linear(const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in) {
  check(x_in, weight_in, bias_in);
  const OperatorCall call(kLinear, {x_in, weight_in, bias_in});
  const Tensor x = call.on_mesh(0), &weight = call[1], &bias = call[2];
  const Results rule = x.is_shard() ? results_of(x.layout(), weight.layout(), weight.dim(0)) : Results{};
  Shape y_shape = x.shape();
  y_shape[x.ndim() - 1] = weight.dim(0);
  Tensor y = Tensor::empty(rule.y, y_shape, x.dtype());
  const Local l = measure(x, weight, y);

  const DType type = x.dtype();
  const Tensor weight_used = weight.detach().to(type);
  const Tensor bias_used = bias ? bias.detach().to(type) : bias;
  const bool bias_is_local = bias && bias.is_shard();
  const void* bias_data = bias && rule.adds_bias ? at(bias_used, bias_is_local ? 0 : l.bias_first) : nullptr;
  const Gemm forward{.m = l.rows,
                     .n = l.out,
                     .k = l.in,
                     .transpose_b = true,
                     .ldb = l.weight_columns,
                     .type = type,
                     .out = type};
  gemm(forward, x.raw(), at(weight_used, l.first), y.raw(), bias_data);

  std::vector<Tensor> inputs{x, weight};
  if (bias) inputs.push_back(bias);
  const bool want_x = x.requires_grad(), want_w = weight.requires_grad(),
             want_b = bias && bias.requires_grad();
  const std::size_t n_inputs = inputs.size();
  const DType w_type = weight.dtype(), b_type = bias ? bias.dtype() : type;
  // The product's type, unless the weight is kept in f32 beside bf16 activations.
  const DType dw_type = type == DType::bf16 && w_type == DType::f32 ? w_type : type;
  record("linear", inputs, y,
         [=, x = x.detach(), w = weight.detach(), x_shape = x.shape()](const Tensor& gy) {
           Gradients grads(n_inputs);
           if (want_x) {
             grads[0] = Tensor::empty(rule.dx, x_shape, type);
             gemm({.m = l.rows, .n = l.in, .k = l.out, .ldb = l.weight_columns, .type = type, .out = type},
                  gy.raw(), at(w.to(type), l.first), grads[0].raw());  // rounded once more instead of kept
           }
           if (want_w) {
             grads[1] = contribution_storage(weight, rule.dw, dw_type);
             gemm({.m = l.out, .n = l.in, .k = l.rows, .transpose_a = true, .type = type, .out = dw_type},
                  gy.raw(), x.raw(), grads[1].raw());
             if (w_type != dw_type) grads[1] = grads[1].to(w_type);
           }
           if (want_b) {
             grads[2] = contribution_storage(bias, rule.db, b_type);
             sum_rows(l.rows, l.out, type, gy.raw(), b_type, grads[2].raw());
           }
           return grads;
         });
  return y;
}

}  // namespace tessera
