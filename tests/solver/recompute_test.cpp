// Blocks that are computed again in the backward pass: the same gradients, hooks that run once, refusals.
#include <gtest/gtest.h>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/train/data_parallel.hpp"
#include "tests/solver/leaves.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

/// Blocks that share one weight, which is also used outside them.
Tensor shared_weight(const Tensor& x, const Tensor& w, bool recompute) {
  const auto block = [w](std::span<const Tensor> in) { return gelu(mul(in[0], w)); };
  const auto nested = [w, block, recompute](std::span<const Tensor> in) {
    const Tensor y = mul(in[0], w);
    return recompute ? checkpoint(block, {&y, 1}) : block({&y, 1});
  };
  Tensor y = recompute ? checkpoint(block, {&x, 1}) : block({&x, 1});
  y = recompute ? checkpoint(nested, {&y, 1}) : nested({&y, 1});
  return sum(square(add(y, w)));
}

TEST(Recomputation, SharedWeightsAccumulateOnceAndRunTheirHooksOnce) {
  Random random(31);
  const Values vx = random_values(random, 48), vw = random_values(random, 6);
  const Tensor x = leaf(vx, {8, 6}), w = leaf(vw);
  shared_weight(x, w, false).backward();
  on_layouts([&](const Layout& layout) {
    const Tensor xs = leaf(vx, {8, 6}, layout), ws = leaf(vw);
    int hooks = 0, after = 0;
    ws.register_hook([&](const Tensor& g) {
      ++hooks;
      EXPECT_FALSE(g.is_shard());
      return Tensor();
    });
    ws.register_post_accumulate_hook([&] { ++after; });
    shared_weight(xs, ws, true).backward();
    EXPECT_EQ(hooks, 1);
    EXPECT_EQ(after, 1);
    expect_close(values_of(xs.grad()), values_of(x.grad()), 1e-12, 0, to_string(layout) + " x");
    expect_close(values_of(ws.grad()), values_of(w.grad()), 1e-12, 0, to_string(layout) + " w");
  });
}

TEST(Recomputation, SharedWeightsUnderDataParallel) {
  Random random(32);
  const Values vx = random_values(random, 48), vw = random_values(random, 6);
  const Tensor x = leaf(vx, {8, 6}), w = leaf(vw);
  shared_weight(x, w, false).backward();
  const MeshAxis axes[] = {{"ddp", 1}, {"domain", -1}};
  const Mesh mesh(world(), axes);
  const std::string name = "domain";
  const Mesh domain = mesh.sub({&name, 1});
  const Tensor ws = leaf(vw);
  DataParallel parallel(mesh, {{"w", ws}});
  for (int update = 0; update < 2; ++update) {
    parallel.zero_grad();
    shared_weight(tensor_of(vx, {8, 6}, DType::f64, Layout::even(domain, {Shard(0)}, {8, 6})), ws, true)
        .backward();
    parallel.finish();
    expect_close(ws.grad().to_host<double>(), w.grad().to_host<double>(), 1e-12, 0, "w");
  }
}

TEST(Recomputation, ChosenGradientsLeaveLeavesAlone) {
  Random random(33);
  const Values vx = random_values(random, 48), vw = random_values(random, 6);
  const Tensor x = leaf(vx, {8, 6}), w = leaf(vw);
  shared_weight(x, w, false).backward();
  on_layouts([&](const Layout& layout) {
    const Tensor xs = leaf(vx, {8, 6}, layout), ws = leaf(vw);
    const Tensor inputs[] = {ws, xs};
    const Gradients g = gradients(shared_weight(xs, ws, true), inputs);
    EXPECT_FALSE(xs.grad());
    EXPECT_FALSE(ws.grad());
    expect_close(values_of(g[0]), values_of(w.grad()), 1e-12, 0, to_string(layout) + " w");
    expect_close(values_of(g[1]), values_of(x.grad()), 1e-12, 0, to_string(layout) + " x");
  });
}

TEST(Recomputation, TensorsFromOutside) {
  // The body takes the result of an operator, its own input, and a parameter as it is, past its arguments.
  for (const bool recompute : {false, true}) {
    const Tensor x = leaf({1, 2}), w = leaf({3, 4});
    const Tensor outer = square(x);
    const auto body = [&](std::span<const Tensor> in) { return add(mul(in[0], outer), mul(x, in[0])); };
    const auto constant = [&](std::span<const Tensor>) { return w; };
    const Tensor y = recompute ? checkpoint(body, {&x, 1}) : body({&x, 1});  // x^3 + x^2
    const Tensor z = recompute ? checkpoint(constant, {&x, 1}) : w;
    add(sum(mul(y, z)), sum(outer)).backward();
    EXPECT_EQ(x.grad().to_host<double>(), (Values{3 * (3 + 2) + 2, 4 * (12 + 4) + 4})) << recompute;
    EXPECT_EQ(w.grad().to_host<double>(), (Values{2, 12})) << recompute;
  }
}

TEST(Recomputation, HooksInsideAreThoseOfTheSecondRun) {
  const Tensor x = leaf({1, 2});
  int calls = 0;
  const auto body = [&](std::span<const Tensor> in) {
    const Tensor y = square(in[0]);
    if (y.requires_grad()) {
      y.register_hook([&](const Tensor& g) {
        ++calls;
        return mul(g, 10.0);
      });
    }
    return mul(y, 3.0);
  };
  sum(checkpoint(body, {&x, 1})).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().to_host<double>(), (Values{60, 120}));
}

TEST(Recomputation, BodiesThatChangeAreAnError) {
  const Tensor x = leaf({1, 2}), first = leaf({3, 4}), second = leaf({5, 6});
  int runs = 0;
  const auto body = [&](std::span<const Tensor> in) { return mul(in[0], runs++ == 0 ? first : second); };
  expect_error(
      [&] {
        sum(checkpoint(body, {&x, 1})).backward();
      },
      {"[checkpoint]", "second run", "parameter"});
}

TEST(Recomputation, SavesNothingWhereNothingIsDifferentiated) {
  const Tensor x = tensor_of({1, 2}, Shape{2}), w = leaf({3, 4});
  const auto body = [&](std::span<const Tensor> in) { return mul(in[0], w); };
  const NoGrad no_grad;
  EXPECT_FALSE(checkpoint(body, {&x, 1}).requires_grad());
}

}  // namespace
}  // namespace tessera::testing
