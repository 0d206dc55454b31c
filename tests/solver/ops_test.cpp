// Elementwise operators, reductions, shape operators and losses: finite differences on plain tensors, and the
// same values and gradients on every layout.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "solver/ops/elementwise/broadcast.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;
using Operator = std::function<Tensor(const Tensors&)>;

struct Case {
  const char* name;
  std::vector<Shape> shapes;
  Operator op;
  double lowest = -1;  ///< inputs lie in [lowest, lowest + 2)
};

Values input_values(Random& random, const Case& c, std::size_t input) {
  Values values = random_values(random, count(c.shapes[input]));
  for (double& v : values) v += c.lowest + 1;
  return values;
}

Tensors make_inputs(const Case& c, const std::vector<Values>& values, const std::vector<Layout>& layouts) {
  Tensors inputs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    inputs.push_back(tensor_of(values[i], c.shapes[i], DType::f64, layouts[i]));
    inputs.back().set_requires_grad();
  }
  return inputs;
}

double contracted(const Case& c, const std::vector<Values>& values, const Values& cotangent) {
  const NoGrad no_grad;
  const Values y = c.op(make_inputs(c, values, std::vector<Layout>(values.size()))).to_host<double>();
  double total = 0;
  for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * cotangent[i];
  return total;
}

void check_finite_differences(const Case& c, std::vector<Values> values, const Values& cotangent,
                              const std::vector<Values>& gradients) {
  constexpr double h = 1e-5;
  for (std::size_t input = 0; input < values.size(); ++input) {
    Values slope;
    for (double& v : values[input]) {
      const double kept = v;
      v = kept + h;
      const double above = contracted(c, values, cotangent);
      v = kept - h;
      slope.push_back((above - contracted(c, values, cotangent)) / (2 * h));
      v = kept;
    }
    expect_close(gradients[input], slope, 1e-8, 1e-9, "finite differences, input " + std::to_string(input));
  }
}

/// A random layout of each operand, or none.
std::vector<Layout> random_layouts(Random& random, const Case& c, const Mesh& mesh, Cuts cuts) {
  std::vector<Layout> layouts;
  for (const Shape& shape : c.shapes) {
    std::vector<int> dims;
    for (int d = 0; d < shape.size(); ++d) dims.push_back(d);
    const bool plain = pick(random, 0, 3) == 0;
    layouts.push_back(plain ? Layout() : random_layout(random, mesh, shape, dims, cuts));
  }
  return layouts;
}

void check(const Case& c) {
  SCOPED_TRACE(c.name);
  Random random(42);
  std::vector<Values> values;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) values.push_back(input_values(random, c, i));
  const Tensors plain = make_inputs(c, values, std::vector<Layout>(values.size()));
  const Tensor y = c.op(plain);
  const Values cotangent = random_values(random, count(y.shape()));
  y.backward(tensor_of(cotangent, y.shape()));
  std::vector<Values> gradients;
  for (const Tensor& x : plain) gradients.push_back(x.grad().to_host<double>());
  check_finite_differences(c, values, cotangent, gradients);
  for (const Mesh& mesh : meshes(3)) {
    for (int repeat = 0; repeat < 6; ++repeat) {
      const std::vector<Layout> layouts = random_layouts(random, c, mesh, static_cast<Cuts>(repeat % 3));
      std::string what;
      for (const Layout& layout : layouts) what += to_string(layout) + "; ";
      SCOPED_TRACE(what);
      const Tensors inputs = make_inputs(c, values, layouts);
      const Tensor z = full_tensor(c.op(inputs));
      ASSERT_EQ(z.shape(), y.shape());
      expect_close(z.to_host<double>(), y.to_host<double>(), 1e-13, 1e-14, "value");
      z.backward(tensor_of(cotangent, y.shape()));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        ASSERT_TRUE(inputs[i].grad().layout() == layouts[i]) << i;
        expect_close(values_of(inputs[i].grad()), gradients[i], 1e-13, 1e-14,
                     "gradient of input " + std::to_string(i));
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

Operator unary(Tensor (*op)(const Tensor&)) {
  return [op](const Tensors& in) { return op(in[0]); };
}
Operator binary(Tensor (*op)(const Tensor&, const Tensor&)) {
  return [op](const Tensors& in) { return op(in[0], in[1]); };
}

TEST(Elementwise, Unary) {
  const Shape shape{2, 5, 3};
  check({"relu", {shape}, unary(relu)});
  check({"leaky_relu", {shape}, [](const Tensors& in) { return leaky_relu(in[0], 0.2); }});
  check({"elu", {shape}, unary(elu)});
  check({"gelu", {shape}, unary(gelu)});
  check({"gelu_tanh", {shape}, unary(gelu_tanh)});
  check({"silu", {shape}, unary(silu)});
  check({"sigmoid", {shape}, unary(sigmoid)});
  check({"softplus", {shape}, unary(softplus)});
  check({"tanh", {shape}, unary(tanh)});
  check({"exp", {shape}, unary(exp)});
  check({"log", {shape}, unary(log), 0.5});
  check({"sqrt", {shape}, unary(sqrt), 0.5});
  check({"square", {shape}, unary(square)});
  check({"abs", {shape}, unary(abs)});
  check({"neg", {shape}, unary(neg)});
  check({"add scalar", {shape}, [](const Tensors& in) { return add(in[0], 2.5); }});
  check({"mul scalar", {shape}, [](const Tensors& in) { return mul(in[0], -2.5); }});
  check({"clamp", {shape}, [](const Tensors& in) { return clamp(in[0], -0.5, 0.25); }});
  check({"scalar operand", {Shape{}}, unary(gelu)});
}

TEST(Elementwise, LargeArguments) {
  const Tensor x = tensor_of({-1000, -50, 50, 1000}, Shape{4});
  for (Tensor (*op)(const Tensor&) : {gelu, gelu_tanh, silu, sigmoid, softplus, elu, tanh}) {
    for (double v : op(x).to_host<double>()) EXPECT_TRUE(std::isfinite(v));
  }
  EXPECT_EQ(softplus(x).to_host<double>()[3], 1000);
  EXPECT_EQ(sigmoid(x).to_host<double>()[0], 0);
  EXPECT_EQ(silu(x).to_host<double>()[0], 0);
}

TEST(Elementwise, BinaryAndBroadcast) {
  const std::vector<std::pair<const char*, Operator>> ops{
      {"add", binary(add)}, {"sub", binary(sub)}, {"mul", binary(mul)}, {"div", binary(div)}};
  for (const auto& [name, op] : ops) {
    check({name, {{2, 5, 3}, {2, 5, 3}}, op, 0.5});
    check({name, {{2, 5, 3}, {3}}, op, 0.5});
    check({name, {{5, 1}, {2, 5, 3}}, op, 0.5});
    check({name, {{4, 1}, {1, 6}}, op, 0.5});
    check({name, {{2, 1, 5, 3}, {4, 1, 3}}, op, 0.5});
    check({name, {{4, 3}, {}}, op, 0.5});
    check({name, {{1, 6, 1}, {1}}, op, 0.5});
  }
  check({"x x", {{4, 3}}, [](const Tensors& in) { return mul(in[0], in[0]); }});
  EXPECT_THROW(add(Tensor::zeros(Shape{2, 3}), Tensor::zeros(Shape{2, 4})), Error);
  EXPECT_THROW(add(Tensor::zeros(Shape{2}), Tensor::zeros(Shape{2}, DType::f64)), Error);
}

TEST(Elementwise, PartialOperandsAreReducedFirst) {
  const Mesh mesh = meshes(1)[0];
  const Layout layout(mesh, {Partial()}, Shape{2}, {});
  const Tensor x = tensor_of({1, -3}, Shape{2}, DType::f64, layout);
  const double total = mesh.size();
  EXPECT_EQ(values_of(square(x)), (Values{total * total, 9 * total * total}));
  EXPECT_EQ(values_of(add(x, tensor_of({1, 1}, Shape{2}))), (Values{total + 1, 1 - 3 * total}));
}

TEST(Elementwise, EqualCutsNeedNoCommunication) {
  Random random(11);
  const Shape shape{6, 5};
  for (const Mesh& mesh : meshes(2)) {
    const Layout layout = random_layout(random, mesh, shape, {0, 1}, Cuts::uneven);
    const Tensor a = tensor_of(random_values(random, 30), shape, DType::f64, layout);
    const Tensor b = tensor_of(random_values(random, 30), shape, DType::f64, layout);
    const Tensor w = tensor_of(random_values(random, 5), Shape{1, 1});
    w.set_requires_grad();
    CommStats::global().reset();
    const Tensor y = add(mul(gelu(a), w), b);
    EXPECT_TRUE(y.layout() == layout);
    EXPECT_TRUE(CommStats::global().counts().empty()) << CommStats::global().report();
  }
}

TEST(Elementwise, Bfloat16) {
  Random random(12);
  const Values a = random_values(random, 24), b = random_values(random, 24);
  const Shape shape{4, 6};
  const auto run = [&](DType type, bool sharded) {
    const Layout layout = sharded ? Layout::even(meshes(1)[0], {Shard(0)}, shape) : Layout();
    const Tensor x = tensor_of(a, shape, type, layout), w = tensor_of(b, shape, type);
    x.set_requires_grad();
    const Tensor y = sum(gelu(mul(x, w)), std::vector<int>{0});
    EXPECT_EQ(y.dtype(), type);
    full_tensor(y).backward(Tensor::full(Shape{6}, 1.0, type));
    return std::pair{values_of(y), values_of(x.grad())};
  };
  const auto want = run(DType::f64, false);
  for (bool sharded : {false, true}) {
    const auto got = run(DType::bf16, sharded);
    expect_close(got.first, want.first, 0.03, 0, "value");
    expect_close(got.second, want.second, 0.03, 0, "gradient");
  }
}

TEST(Reduce, AllOperators) {
  const Shape shape{2, 7, 3};
  const std::vector<std::vector<int>> choices{{}, {0}, {1}, {-1}, {1, 2}, {0, 2}};
  for (const std::vector<int>& dims : choices) {
    for (bool keep : {false, true}) {
      check({"sum", {shape}, [&](const Tensors& in) { return sum(in[0], dims, keep); }});
      check({"mean", {shape}, [&](const Tensors& in) { return mean(in[0], dims, keep); }});
      check({"amax", {shape}, [&](const Tensors& in) { return amax(in[0], dims, keep); }});
      check({"amin", {shape}, [&](const Tensors& in) { return amin(in[0], dims, keep); }});
      check({"var", {shape}, [&](const Tensors& in) { return var(in[0], dims, keep); }});
      check({"biased var", {shape}, [&](const Tensors& in) { return var(in[0], dims, keep, false); }});
    }
  }
  check({"sum of a scalar", {Shape{}}, [](const Tensors& in) { return sum(in[0]); }});
  EXPECT_THROW(sum(Tensor::zeros(shape), std::vector<int>{3}), Error);
}

TEST(Reduce, ReducingAScalarLeavesItAlone) {
  const Tensor x = Tensor::full(Shape{}, 3, DType::f64);
  EXPECT_DOUBLE_EQ(mean(x).item(), 3);
  EXPECT_DOUBLE_EQ(x.item(), 3);
}

TEST(Reduce, LongRows) {
  // Longer than the chunks that a long row is cut into.
  Values values(3 * 8192 * 2);
  double want = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<double>(i));
    want += values[i];
  }
  const Shape shape{static_cast<Index>(values.size())};
  EXPECT_NEAR(sum(tensor_of(values, shape)).item(), want, 1e-9);
  const Layout layout = Layout::even(meshes(1)[0], {Shard(0)}, shape);
  EXPECT_NEAR(values_of(sum(tensor_of(values, shape, DType::f64, layout)))[0], want, 1e-9);
  EXPECT_NEAR(sum(tensor_of(values, shape, DType::f32)).item(), want, 1e-4);
}

TEST(Reduce, ShardedSumIsPartialWithoutCommunication) {
  const Mesh mesh = meshes(1)[0];
  const Tensor x = Tensor::zeros(Layout::even(mesh, {Shard(1)}, Shape{2, 6}), DType::f64);
  CommStats::global().reset();
  const Tensor y = mean(x, std::vector<int>{1});
  EXPECT_EQ(y.layout().placement(0), Partial());
  const Tensor z = sum(x, std::vector<int>{0});
  EXPECT_EQ(z.layout().placement(0), Shard(0));
  EXPECT_TRUE(CommStats::global().counts().empty()) << CommStats::global().report();
}

TEST(Reduce, EqualExtremesShareTheGradient) {
  const Values values{3, 1, 3, 0, 3, 2, 1, 0};
  for (const Mesh& mesh : meshes(1)) {
    const Tensor x = tensor_of(values, Shape{8}, DType::f64, Layout::even(mesh, {Shard(0)}, Shape{8}));
    x.set_requires_grad();
    amax(x).backward();
    expect_close(values_of(x.grad()), {1 / 3.0, 0, 1 / 3.0, 0, 1 / 3.0, 0, 0, 0}, 1e-15, 0, "amax");
  }
}

TEST(Reduce, VarianceOfLargeMean) {
  Values values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1e4 + static_cast<double>(i % 2);
  const Layout layout = Layout::even(meshes(1)[0], {Shard(0)}, Shape{64});
  const Tensor x = tensor_of(values, Shape{64}, DType::f32, layout);
  EXPECT_NEAR(values_of(var(x, {}, false, false))[0], 0.25, 1e-6);
}

TEST(Shape, Reshape) {
  const std::vector<std::pair<Shape, Shape>> pairs{
      {{6, 4}, {24}},       {{24}, {6, 4}},       {{6, 4}, {4, 6}},          {{1, 6, 4}, {6, 4}},
      {{6, 4}, {1, 6, 4}},  {{2, 3, 4}, {6, 4}},  {{2, 3, 4}, {2, 12}},      {{8, 3}, {2, 4, 3}},
      {{6, 4, 5}, {6, 20}}, {{6, 20}, {6, 4, 5}}, {{6, 4, 1}, {6, 2, 2, 1}}, {{1, 1}, {1}},
      {{6, 1, 4}, {3, 8}},  {{}, {1, 1}}};
  for (const auto& [from, to] : pairs) {
    check({"reshape", {from}, [&to = to](const Tensors& in) { return reshape(in[0], to); }});
  }
  check({"unsqueeze", {{6, 4}}, [](const Tensors& in) { return unsqueeze(in[0], 1); }});
  check({"unsqueeze last", {{6, 4}}, [](const Tensors& in) { return unsqueeze(in[0], -1); }});
  check({"squeeze", {{6, 1, 4}}, [](const Tensors& in) { return squeeze(in[0], 1); }});
  EXPECT_THROW(reshape(Tensor::zeros(Shape{6}), Shape{5}), Error);
  EXPECT_THROW(squeeze(Tensor::zeros(Shape{6}), 0), Error);
  EXPECT_EQ(reshape(Tensor::zeros(Shape{0, 3}), Shape{0}).shape(), (Shape{0}));
}

TEST(Shape, ReshapeOfLeadingShardsMovesNothing) {
  const Mesh mesh = meshes(1)[0];
  const Tensor x = Tensor::zeros(Layout::even(mesh, {Shard(1)}, Shape{1, 8, 6}), DType::f64);
  CommStats::global().reset();
  EXPECT_EQ(reshape(x, Shape{1, 48}).layout().placement(0), Shard(1));
  EXPECT_EQ(reshape(x, Shape{8, 6}).layout().placement(0), Shard(0));
  EXPECT_EQ(reshape(x, Shape{1, 8, 2, 3}).layout().placement(0), Shard(1));
  EXPECT_TRUE(CommStats::global().counts().empty()) << CommStats::global().report();
}

TEST(Shape, Permute) {
  const std::vector<std::vector<int>> orders{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}};
  for (const std::vector<int>& dims : orders) {
    check({"permute", {{4, 5, 3}}, [&](const Tensors& in) { return permute(in[0], dims); }});
  }
  check({"permute with ones", {{1, 5, 1}}, [](const Tensors& in) {
           return permute(in[0], std::vector<int>{1, 2, 0});
         }});
  EXPECT_THROW(permute(Tensor::zeros(Shape{2, 2}), std::vector<int>{0, 0}), Error);
  EXPECT_THROW(permute(Tensor::zeros(Shape{2, 2}), std::vector<int>{0}), Error);
}

TEST(Shape, SliceSelectSplit) {
  const Shape shape{3, 9, 2};
  const std::vector<std::array<Index, 4>> slices{{0, 1, 3, 1}, {1, 0, 9, 1}, {1, 2, 7, 1}, {1, 0, 9, 2},
                                                 {1, 1, 8, 3}, {2, 1, 2, 1}, {1, 8, 9, 1}, {-1, 0, 1, 1}};
  for (const auto& [dim, start, stop, step] : slices) {
    check({"slice",
           {shape},
           [d = static_cast<int>(dim), start = start, stop = stop, step = step](const Tensors& in) {
             return slice(in[0], d, start, stop, step);
           }});
  }
  check({"select", {shape}, [](const Tensors& in) { return select(in[0], 1, 4); }});
  check({"select last", {shape}, [](const Tensors& in) { return select(in[0], 1, -1); }});
  check({"split", {shape}, [](const Tensors& in) {
           const Index sizes[] = {2, 3, 4};
           const Tensors parts = split(in[0], 1, sizes);
           return sum(mul(parts[2], 2.0), std::vector<int>{1});  // the others have no gradient
         }});
  EXPECT_THROW(slice(Tensor::zeros(shape), 1, 0, 10), Error);
  EXPECT_THROW(slice(Tensor::zeros(shape), 3, 0, 1), Error);
  EXPECT_THROW(split(Tensor::zeros(shape), 1, std::vector<Index>{2, 3}), Error);
}

TEST(Shape, NothingSelected) {
  const Mesh mesh = meshes(1)[0];
  const Tensor x = Tensor::zeros(Layout::even(mesh, {Shard(0)}, Shape{6, 2}), DType::f64);
  EXPECT_EQ(slice(x, 0, 3, 3).shape(), (Shape{0, 2}));
}

TEST(Shape, Cat) {
  const auto along = [](int dim) { return [dim](const Tensors& in) { return cat(in, dim); }; };
  check({"cat 0", {{2, 4, 3}, {5, 4, 3}}, along(0)});
  check({"cat 1", {{2, 4, 3}, {2, 1, 3}, {2, 2, 3}}, along(1)});
  check({"cat last", {{2, 4, 3}, {2, 4, 1}}, along(-1)});
  check({"cat one", {{2, 4}}, along(0)});
  EXPECT_THROW(cat(Tensors{Tensor::zeros(Shape{2, 3}), Tensor::zeros(Shape{2, 4})}, 0), Error);
  EXPECT_THROW(cat(Tensors{}, 0), Error);
}

TEST(Loss, AllButCrossEntropy) {
  const Shape shape{2, 5, 4, 3};
  check({"mse_loss", {shape, shape}, binary(mse_loss)});
  check({"l1_loss", {shape, shape}, binary(l1_loss)});
  check({"relative_l2_loss", {shape, shape}, binary(relative_l2_loss)});
  check({"vrmse_loss", {shape, shape}, binary(vrmse_loss)});
  EXPECT_THROW(mse_loss(Tensor::zeros(Shape{2, 1}), Tensor::zeros(Shape{2, 3})), Error);
}

TEST(Loss, ValuesFromTheDefinition) {
  const Tensor x = tensor_of({1, 2, 3, 4}, Shape{1, 4, 1}), t = tensor_of({1, 1, 3, 7}, Shape{1, 4, 1});
  EXPECT_DOUBLE_EQ(mse_loss(x, t).item(), 10 / 4.0);
  EXPECT_DOUBLE_EQ(l1_loss(x, t).item(), 4 / 4.0);
  EXPECT_DOUBLE_EQ(relative_l2_loss(x, t).item(), std::sqrt(10.0 / 60.0));
  EXPECT_DOUBLE_EQ(vrmse_loss(x, t).item(), std::sqrt(2.5 / (8.0 + 1e-7)));
}

TEST(Loss, ValueIsReducedOnEveryRank) {
  const Mesh mesh = meshes(1)[0];
  const Layout layout = Layout::even(mesh, {Shard(1)}, Shape{1, 6, 2});
  const Tensor x = Tensor::zeros(layout, DType::f64);
  const Tensor loss = mse_loss(x, tensor_of(Values(12, 2.0), Shape{1, 6, 2}, DType::f64, layout));
  EXPECT_FALSE(loss.is_shard() && loss.layout().has_partial());
  EXPECT_DOUBLE_EQ(loss.item(), 4);
}

TEST(Loss, CrossEntropy) {
  const Values classes{2, 0, 1, 1, 3};
  for (bool sharded_targets : {false, true}) {
    const auto op = [&](const Tensors& in) {
      Layout layout;
      if (sharded_targets && in[0].is_shard()) {
        const Mesh mesh = in[0].layout().mesh();
        Placements placements = Placements::filled(mesh.axes(), Replicate());
        placements[0] = Shard(0);
        layout = Layout::even(mesh, placements, Shape{5});
      }
      return cross_entropy(in[0], tensor_of(classes, Shape{5}, DType::i64, layout));
    };
    check({"cross_entropy", {{5, 4}}, op});
  }
  const Tensor sure = tensor_of({1000, 0, 0, 1000}, Shape{2, 2});
  EXPECT_DOUBLE_EQ(cross_entropy(sure, tensor_of({0, 0}, Shape{2}, DType::i64)).item(), 500);
  EXPECT_THROW(cross_entropy(sure, tensor_of({0, 2}, Shape{2}, DType::i64)), Error);
  EXPECT_THROW(cross_entropy(sure, tensor_of({0, 1}, Shape{2})), Error);
}

}  // namespace
}  // namespace tessera::testing
