// Where gradients are kept: storage that passes write to, add to, or lend to operators.
#include <gtest/gtest.h>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/linear/linear.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/tensor/autograd.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

Tensor leaf(const Values& values, const Shape& shape) {
  const Tensor t = tensor_of(values, shape, DType::f64, {});
  t.set_requires_grad();
  return t;
}

Tensor leaf(const Values& values) {
  return leaf(values, Shape{static_cast<Index>(values.size())});
}

/// Uses a weight `times` times on a field cut over all ranks, and returns what its gradient becomes.
Values gradient_after(const Tensor& weight, int times, const std::function<void()>& before) {
  const MeshAxis axis{"domain", -1};
  const Mesh mesh(world(), {&axis, 1});
  Random random(5);
  const Tensor x =
      tensor_of(random_values(random, 63), {9, 7}, DType::f64, Layout::even(mesh, {Shard(0)}, {9, 7}));
  before();
  Tensor y = linear(x, weight);
  for (int i = 1; i < times; ++i) y = linear(mul(y, y), weight);
  sum(square(y)).backward();
  return weight.grad().to_host<double>();
}

TEST(ForgottenGradients, AreOverwrittenByTheFirstContributionAndAddedToByOthers) {
  Random random(6);
  const Values start = random_values(random, 49);
  for (const int times : {1, 2, 3}) {
    const Values want = gradient_after(leaf(start, {7, 7}), times, [] {});
    const Tensor weight = leaf(start, {7, 7});
    weight.set_grad(Tensor::full({7, 7}, 1e30, DType::f64));
    for (int round = 0; round < 2; ++round) {
      expect_close(gradient_after(weight, times, [&] { weight.forget_grad(); }), want, 1e-14, 0, "forgotten");
    }
    Values twice = gradient_after(weight, times, [] {});
    for (double& v : twice) v /= 2;
    expect_close(twice, want, 1e-14, 0, "added to");
  }
}

TEST(ForgottenGradients, AreZeroWhereNothingCame) {
  const Tensor weight = leaf({1, 2});
  weight.set_grad(Tensor::full({2}, 5, DType::f64));
  weight.forget_grad();
  EXPECT_EQ(weight.grad().to_host<double>(), (Values{0, 0}));
}

TEST(ForgottenGradients, AreNotTouchedWhenChosenGradientsAreAskedFor) {
  const Tensor weight = leaf({1, 2, 3, 4}, {2, 2}), x = tensor_of({1, 1}, {1, 2});
  weight.set_grad(Tensor::full({2, 2}, 5, DType::f64));
  weight.forget_grad();
  const Gradients g = gradients(sum(linear(x, weight)), {&weight, 1});
  EXPECT_EQ(g[0].to_host<double>(), (Values{1, 1, 1, 1}));
  EXPECT_EQ(weight.grad().to_host<double>(), (Values{0, 0, 0, 0}));
}

TEST(ForgottenGradients, HooksStillReplaceThem) {
  const Tensor weight = leaf({1, 2, 3, 4}, {2, 2}), x = tensor_of({1, 1}, {1, 2});
  weight.set_grad(Tensor::full({2, 2}, 5, DType::f64));
  weight.register_hook([](const Tensor& g) { return mul(g, 2.0); });
  weight.forget_grad();
  sum(linear(x, weight)).backward();
  EXPECT_EQ(weight.grad().to_host<double>(), (Values{2, 2, 2, 2}));
}

TEST(ForgottenGradients, MayBeReadByHooksWhileContributionsAreOnTheirWay) {
  const Values start{1, 2, 3, 4};
  const auto gradient = [&](bool reads) {
    const Tensor weight = leaf(start, {2, 2}), x = tensor_of({1, -1}, {1, 2});
    weight.set_grad(Tensor::full({2, 2}, 5, DType::f64));
    weight.forget_grad();
    const Tensor between = linear(x, weight);
    between.register_hook([&, reads](const Tensor&) {
      if (reads) {
        EXPECT_EQ(weight.grad().to_host<double>(), (Values{0, 0, 0, 0}));
      }
      return Tensor();
    });
    sum(square(linear(between, weight))).backward();
    return weight.grad().to_host<double>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(KeptGradients, AreNotConstantsOnceAnotherPassHasWrittenToThem) {
  for (const bool forgets : {false, true}) {
    const Tensor weight = leaf({1, 2, 3, 4}, {2, 2}), x = tensor_of({1, 1}, {1, 2}),
                 scale = leaf({1, 1, 1, 1}, {2, 2});
    sum(linear(x, weight)).backward();
    const Tensor loss = sum(mul(scale, weight.grad().detach()));
    if (forgets) weight.forget_grad();
    sum(square(linear(x, weight))).backward();
    try {
      loss.backward();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("written to in place"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tessera::testing
