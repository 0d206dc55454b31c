// Products, softmax and losses.
#include "solver/ops/linear/linear.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/ops/matmul/matmul.hpp"
#include "solver/ops/softmax/softmax.hpp"
#include "tests/property/draw.hpp"

namespace tessera::property {
namespace {

Sample draw_linear(Draw& draw) {
  Shape x = draw.shape(static_cast<int>(draw.in(0, 4)), 5, true);
  const Index in_features = draw.in(1, 7), out_features = draw.in(1, 7);
  x.push_back(in_features);
  const bool biased = draw.one_in(2);
  Sample s;
  s.operand("x", x, draw.values(count(x)));
  s.operand("weight", {out_features, in_features}, draw.values(out_features * in_features));
  if (biased) s.operand("bias", {out_features}, draw.values(out_features));
  s.op = [=](Inputs in) { return linear(in[0], in[1], biased ? in[2] : Tensor()); };
  return s;
}

Sample draw_matmul(Draw& draw) {
  const Index m = draw.in(1, 6), k = draw.in(draw.one_in(16) ? 0 : 1, 6), n = draw.in(1, 6);
  Shape a, b;
  const Shape batch = draw.shape(static_cast<int>(draw.in(0, 3)), 4);
  for (const Index extent : batch) {
    a.push_back(draw.one_in(4) ? 1 : extent);
    b.push_back(draw.one_in(4) ? 1 : extent);
  }
  for (Shape* shape : {&a, &b}) {
    const Index fewer = draw.one_in(4) ? draw.in(0, shape->size()) : 0;
    for (Index i = 0; i < fewer; ++i) shape->erase(0);
  }
  const Index vector = draw.in(0, 9);
  if (vector == 0) a = Shape();
  if (vector == 1) b = Shape();
  if (vector != 0) a.push_back(m);
  a.push_back(k);
  b.push_back(k);
  if (vector != 1) b.push_back(n);
  Sample s;
  s.operand("a", a, draw.values(count(a)));
  s.operand("b", b, draw.values(count(b)));
  s.op = [](Inputs in) { return matmul(in[0], in[1]); };
  return s;
}

Generator along(const char* name, Tensor (*op)(const Tensor&, int)) {
  return {name,
          [=](Draw& draw) {
            const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 7);
            const int dim = draw.signed_dim(x.size());
            Sample s;
            s.text = fmt::format("dim {}", dim);
            s.operand("x", x, draw.values(count(x), -4, 4));
            s.op = [=](Inputs in) { return op(in[0], dim); };
            return s;
          },
          2};
}

/// A loss of two operands of one shape. `apart`: the operands differ by at least 1/8 everywhere.
Generator loss(const char* name, Tensor (*op)(const Tensor&, const Tensor&), int least_dims, bool apart) {
  return {name, [=](Draw& draw) {
            const Shape x = draw.shape(static_cast<int>(draw.in(least_dims, 5)), 5);
            Sample s;
            s.f32_tolerance = 1e-3;
            s.operand("x", x, apart ? draw.levels(count(x)) : draw.values(count(x)));
            s.operand("target", x, apart ? draw.levels(count(x)) : draw.values(count(x)));
            for (double& v : s.operands[1].values) v += apart ? 0.125 : 0;
            s.operands[1].differentiable = draw.one_in(2);
            s.op = [op](Inputs in) { return op(in[0], in[1]); };
            return s;
          }};
}

Sample draw_vrmse(Draw& draw) {
  // (sample, *grid, channel), the grid of at least two points for a variance.
  Shape x{draw.in(1, 3)};
  const Index axes = draw.in(1, 3);
  for (Index a = 0; a < axes; ++a) x.push_back(a == 0 ? draw.in(3, 7) : draw.in(1, 4));
  x.push_back(draw.in(1, 3));
  Sample s;
  s.f32_tolerance = 1e-2;
  s.difference_tolerance = 1e-5;
  s.operand("x", x, draw.values(count(x)));
  s.operand("target", x, draw.distinct(count(x)));
  s.operands[1].differentiable = false;
  s.op = [](Inputs in) { return vrmse_loss(in[0], in[1]); };
  return s;
}

Sample draw_cross_entropy(Draw& draw) {
  const Index rows = draw.in(1, 12), classes = draw.in(1, 6);
  const bool bad = draw.one_in(10);
  Sample s;
  s.operand("x", {rows, classes}, draw.values(rows * classes, -3, 3));
  s.constant("target", {rows}, draw.integers(rows, 0, classes - 1), DType::i64);
  if (bad) {
    s.operands[1].values[static_cast<std::size_t>(draw.in(0, rows - 1))] = static_cast<double>(classes);
    s.refusal = "[cross_entropy] found class";
  }
  s.op = [](Inputs in) { return cross_entropy(in[0], in[1]); };
  return s;
}

}  // namespace

void add_dense(Table& table) {
  table.push_back({"linear", draw_linear, 4});
  table.push_back({"matmul", draw_matmul, 4});
  table.push_back(along("softmax", softmax));
  table.push_back(along("log_softmax", log_softmax));
  table.push_back(loss("mse_loss", mse_loss, 0, false));
  table.push_back(loss("l1_loss", l1_loss, 0, true));
  table.push_back(loss("relative_l2_loss", relative_l2_loss, 1, true));
  table.push_back({"vrmse_loss", draw_vrmse});
  table.push_back({"cross_entropy", draw_cross_entropy, 2});
}

}  // namespace tessera::property
