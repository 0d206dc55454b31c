// The backward engine: accumulation, hooks, chosen gradients, recomputation, deferred sums.
#include "solver/tensor/autograd.hpp"

#include <gtest/gtest.h>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

Tensor leaf(const Values& values) {
  const Tensor t = tensor_of(values, Shape{static_cast<Index>(values.size())});
  t.set_requires_grad();
  return t;
}

TEST(Autograd, GradientsAccumulateUntilCleared) {
  const Tensor x = leaf({1, 2});
  sum(square(x)).backward();
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2, 4}));
  sum(square(x)).backward();
  EXPECT_EQ(x.grad().to_host<double>(), (Values{4, 8}));
  x.set_grad({});
  sum(square(x)).backward();
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2, 4}));
}

TEST(Autograd, TensorUsedSeveralTimes) {
  const Tensor x = leaf({1, 2});
  const Tensor y = mul(x, x);
  sum(add(add(y, x), mul(y, y))).backward();  // x^2 + x + x^4
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2 + 1 + 4, 4 + 1 + 32}));
}

TEST(Autograd, CotangentContracts) {
  const Tensor x = leaf({1, 2, 3});
  square(x).backward(tensor_of({1, 0, -1}, Shape{3}));
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2, 0, -6}));
  EXPECT_THROW(square(x).backward(), Error);
  EXPECT_THROW(square(x).backward(tensor_of({1}, Shape{1})), Error);
}

TEST(Autograd, GradientDoesNotAliasTheCotangent) {
  const Tensor x = leaf({1, 2});
  const Tensor y = leaf({1, 2});
  const Tensor cotangent = tensor_of({1, 1}, Shape{2});
  add(x, y).backward(cotangent);
  add(x, y).backward(cotangent);
  EXPECT_EQ(cotangent.to_host<double>(), (Values{1, 1}));
  EXPECT_EQ(y.grad().to_host<double>(), (Values{2, 2}));
}

TEST(Autograd, LeavesWithoutGradientGetNone) {
  const Tensor x = leaf({1, 2});
  const Tensor c = tensor_of({3, 4}, Shape{2});
  const Tensor y = mul(x, c);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_FALSE(mul(c, c).requires_grad());
  EXPECT_THROW(y.set_requires_grad(), Error);
  EXPECT_THROW(Tensor::zeros(Shape{1}, DType::i64).set_requires_grad(), Error);
  sum(y).backward();
  EXPECT_FALSE(c.grad());
  EXPECT_THROW(sum(c).backward(), Error);
}

TEST(Autograd, HistoryServesOnce) {
  const Tensor x = leaf({1, 2});
  const Tensor y = sum(square(x));
  y.backward();
  EXPECT_THROW(y.backward(), Error);
}

TEST(Autograd, DetachCutsHistory) {
  const Tensor x = leaf({1, 2});
  const Tensor y = square(x);
  EXPECT_FALSE(y.detach().requires_grad());
  sum(mul(y.detach(), x)).backward();
  EXPECT_EQ(x.grad().to_host<double>(), (Values{1, 4}));
}

TEST(Autograd, NoGradAndEnableGrad) {
  const Tensor x = leaf({1, 2});
  {
    const NoGrad none;
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(square(x).requires_grad());
    const EnableGrad again;
    EXPECT_TRUE(square(x).requires_grad());
  }
  EXPECT_TRUE(grad_enabled());
}

TEST(Autograd, HooksSeeAndReplaceGradients) {
  const Tensor x = leaf({1, 2});
  const Tensor y = square(x);
  Values seen;
  y.register_hook([&](const Tensor& g) {
    seen = g.to_host<double>();
    return mul(g, 10.0);
  });
  x.register_hook([](const Tensor& g) { return add(g, 1.0); });
  sum(y).backward();
  EXPECT_EQ(seen, (Values{1, 1}));
  EXPECT_EQ(x.grad().to_host<double>(), (Values{21, 41}));
  EXPECT_THROW(tensor_of({1}, Shape{1}).register_hook([](const Tensor& g) { return g; }), Error);
}

TEST(Autograd, HookSeesTheCompleteGradient) {
  const Tensor x = leaf({3});
  const Tensor y = square(x);
  int calls = 0;
  y.register_hook([&](const Tensor& g) {
    ++calls;
    EXPECT_EQ(g.item(), 7);
    return Tensor();
  });
  sum(add(mul(y, 3.0), mul(y, 4.0))).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Autograd, PostAccumulateHookRunsWhenTheGradientIsThere) {
  const Tensor x = leaf({1, 2});
  Values seen;
  x.register_post_accumulate_hook([&] { seen = x.grad().to_host<double>(); });
  sum(add(square(x), x)).backward();
  EXPECT_EQ(seen, (Values{3, 5}));
  EXPECT_THROW(square(x).register_post_accumulate_hook([] {}), Error);
}

TEST(Autograd, LeafGradientsAreReadyBeforeEarlierOperatorsRun) {
  const Tensor early = leaf({1}), late = leaf({2});
  std::vector<int> order;
  late.register_post_accumulate_hook([&] { order.push_back(0); });
  early.register_post_accumulate_hook([&] { order.push_back(1); });
  sum(mul(exp(square(early)), late)).backward();
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

TEST(Autograd, RetainGrad) {
  const Tensor x = leaf({1, 2});
  const Tensor y = square(x);
  y.retain_grad();
  sum(mul(y, 3.0)).backward();
  EXPECT_EQ(y.grad().to_host<double>(), (Values{3, 3}));
}

TEST(Autograd, ChosenGradientsLeaveLeavesAlone) {
  const Tensor x = leaf({1, 2}), w = leaf({5, 6});
  const Tensor y = square(x);
  const Tensor z = mul(y, w);
  const Tensor inputs[] = {y, w};
  const Gradients g = gradients(z, inputs, tensor_of({1, 1}, Shape{2}));
  EXPECT_EQ(g[0].to_host<double>(), (Values{5, 6}));
  EXPECT_EQ(g[1].to_host<double>(), (Values{1, 4}));
  EXPECT_FALSE(x.grad());
  EXPECT_FALSE(w.grad());
}

TEST(Autograd, ChosenInputThatDoesNotContribute) {
  const Tensor x = leaf({1}), other = leaf({2});
  const Tensor inputs[] = {x, other};
  const Gradients g = gradients(square(x), inputs);
  EXPECT_EQ(g[0].item(), 2);
  EXPECT_FALSE(g[1]);
}

TEST(Autograd, SeveralOutputs) {
  const Tensor x = leaf({1, 2});
  const Tensor y = square(x), z = mul(y, y);  // y is an output and an input of z
  const Tensor outputs[] = {y, z};
  const Tensor cotangents[] = {tensor_of({1, 1}, Shape{2}), tensor_of({1, 1}, Shape{2})};
  backward(outputs, cotangents);
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2 + 4, 4 + 32}));
}

TEST(Autograd, OneOutputOfAnOperatorWithSeveral) {
  const Tensor x = leaf({3, 4});
  std::vector<Tensor> outputs{x.as_plain().clone(), x.as_plain().clone()};
  record_multi("twins", {&x, 1}, outputs, [](std::span<const Tensor> g) {
    EXPECT_FALSE(g[0]);
    return Gradients{mul(g[1], 2.0)};
  });
  sum(outputs[1]).backward();
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2, 2}));
}

TEST(Autograd, WrongNumberOfGradientsIsAnError) {
  const Tensor x = leaf({1});
  Tensor y = x.clone();
  record("broken", {x}, y, [](const Tensor&) { return Gradients{}; });
  EXPECT_THROW(y.backward(), Error);
}

TEST(Autograd, DeepHistoriesUnwind) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 5000; ++i) y = add(y, 1e-4);
  sum(y).backward();
  EXPECT_EQ(x.grad().item(), 1);
}

/// A small network on tokens (N, 3): weights (3) scale and (3) shift.
Tensor network(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  Tensor y = x;
  for (int i = 0; i < 3; ++i) y = add(x, gelu(add(mul(y, scale), shift)));
  return y;
}

struct Net {
  Tensor x, scale, shift;
};

Net make_net(const Layout& layout) {
  Random random(3);
  Net net{tensor_of(random_values(random, 24), Shape{8, 3}, DType::f64, layout),
          tensor_of(random_values(random, 3), Shape{3}), tensor_of(random_values(random, 3), Shape{3})};
  net.x.set_requires_grad();
  net.scale.set_requires_grad();
  net.shift.set_requires_grad();
  return net;
}

void expect_equal_gradients(const Net& got, const Net& want) {
  expect_close(values_of(got.x.grad()), values_of(want.x.grad()), 1e-13, 0, "x");
  expect_close(values_of(got.scale.grad()), values_of(want.scale.grad()), 1e-13, 0, "scale");
  expect_close(values_of(got.shift.grad()), values_of(want.shift.grad()), 1e-13, 0, "shift");
}

TEST(Checkpoint, SameValuesAndGradients) {
  Random random(4);
  for (const Mesh& mesh : meshes(2)) {
    const Layout layout = random_layout(random, mesh, Shape{8, 3}, {0, 1}, Cuts::empty);
    const Net plain = make_net({}), sharded = make_net(layout), again = make_net(layout);
    sum(square(network(plain.x, plain.scale, plain.shift))).backward();
    sum(square(network(sharded.x, sharded.scale, sharded.shift))).backward();
    expect_equal_gradients(sharded, plain);
    int runs = 0;
    const auto body = [&](std::span<const Tensor> in) {
      ++runs;
      return network(in[0], again.scale, again.shift);
    };
    const Tensor inputs[] = {again.x};
    const Tensor y = checkpoint(body, inputs);
    EXPECT_EQ(runs, 1);
    sum(square(y)).backward();
    EXPECT_EQ(runs, 2);
    expect_equal_gradients(again, plain);
  }
}

TEST(Checkpoint, ParametersAloneGetGradients) {
  const Net net = make_net({});
  const Tensor x = net.x.detach();
  const auto body = [&](std::span<const Tensor> in) { return network(in[0], net.scale, net.shift); };
  sum(checkpoint(body, {&x, 1})).backward();
  EXPECT_TRUE(net.scale.grad());
  EXPECT_FALSE(x.requires_grad());
}

TEST(Checkpoint, Nests) {
  const Net plain = make_net({}), again = make_net({});
  sum(square(network(square(plain.x), plain.scale, plain.shift))).backward();
  const auto inner = [&](std::span<const Tensor> in) { return network(in[0], again.scale, again.shift); };
  const auto outer = [&](std::span<const Tensor> in) {
    const Tensor squared = square(in[0]);
    return checkpoint(inner, {&squared, 1});
  };
  sum(square(checkpoint(outer, {&again.x, 1}))).backward();
  expect_equal_gradients(again, plain);
}

TEST(DeferredSum, AddendsSumToTheGradient) {
  Random random(9);
  for (const Mesh& mesh : meshes(2)) {
    const Layout layout = random_layout(random, mesh, Shape{8, 3}, {0, 1}, Cuts::uneven);
    const Net now = make_net(layout), later = make_net(layout);
    later.scale.defer_domain_sum(mesh);
    later.shift.defer_domain_sum(mesh);
    for (const Net* net : {&now, &later}) {
      // Twice, so that addends accumulate; the second loss uses a weight outside the shard tensors, too.
      sum(square(network(net->x, net->scale, net->shift))).backward();
      add(sum(network(net->x, net->scale, net->shift)), sum(square(net->scale))).backward();
      sum(square(net->shift)).backward();
      // A weight that meets the shard tensor after a plain operator.
      sum(mul(net->x, reshape(net->shift, Shape{1, 3}))).backward();
    }
    for (const auto& [got, want] : {std::pair{later.scale, now.scale}, std::pair{later.shift, now.shift}}) {
      EXPECT_FALSE(got.grad().is_shard());
      Values sum_of_addends = got.grad().to_host<double>();
      mesh.comm().all_reduce(sum_of_addends.data(), 3, DType::f64, ReduceOp::sum);
      expect_close(sum_of_addends, want.grad().to_host<double>(), 1e-13, 0, to_string(layout));
    }
  }
}

TEST(ContributionLayout, PartialWhereSharded) {
  const Mesh mesh = meshes(2).back();
  Placements placements = Placements::filled(mesh.axes(), Replicate());
  placements[mesh.axes() - 1] = Shard(0);
  const Layout layout = contribution_layout(Layout::even(mesh, placements, Shape{9, 2}), Shape{4});
  EXPECT_EQ(layout.shape(), (Shape{4}));
  EXPECT_EQ(layout.placement(mesh.axes() - 1), Partial());
  if (mesh.axes() > 1) {
    EXPECT_EQ(layout.placement(0), Replicate());
  }
  EXPECT_FALSE(contribution_layout({}, Shape{4}));
}

TEST(ShardGradients, CarryTheLayoutOfTheirTensor) {
  Random random(10);
  for (const Mesh& mesh : meshes(2)) {
    const Layout layout = random_layout(random, mesh, Shape{8, 3}, {0, 1}, Cuts::uneven);
    const Net net = make_net(layout);
    const Tensor y = network(net.x, net.scale, net.shift);
    y.retain_grad();
    Layout seen;
    y.register_hook([&](const Tensor& g) {
      seen = g.layout();
      return Tensor();
    });
    sum(y).backward();
    EXPECT_TRUE(seen == y.layout());
    EXPECT_TRUE(y.grad().layout() == y.layout());
    EXPECT_TRUE(net.x.grad().layout() == layout);
    EXPECT_FALSE(net.scale.grad().is_shard());
  }
}

}  // namespace
}  // namespace tessera::testing
