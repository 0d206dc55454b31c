// What the backward pass promises beyond numbers: layouts, reductions that happen once, and refusals.
#include <gtest/gtest.h>

#include "parallel/comm_stats.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/linear/linear.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/softmax/softmax.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "solver/train/data_parallel.hpp"
#include "solver/train/optimizer.hpp"
#include "tests/solver/leaves.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

// ---------------------------------------------------------------------------------------------------------
// Refusals

TEST(SecondOrder, GradientsOfGradientsAreRefusedByName) {
  const Tensor x = leaf({1, 2});
  const Gradients g = gradients(sum(mul(square(x), x)), {&x, 1});
  expect_error([&] { sum(square(g[0])).backward(); }, {"gradients of gradients are not supported", "'sum'"});
  // A penalty on the gradient beside another loss must not silently count as a constant.
  expect_error([&] { add(sum(square(x)), sum(square(g[0]))).backward(); },
               {"gradients of gradients are not supported", "'add'"});
  expect_error([&] { gradients(mul(x, g[0]), {&x, 1}, g[0]); }, {"gradients of gradients", "'mul'"});
  EXPECT_FALSE(x.grad());
  sum(square(x)).backward();
  expect_error([&] { sum(mul(x, x.grad())).backward(); }, {"gradients of gradients", "'mul'"});
  Tensor seen;
  const Tensor y = square(x);
  y.register_hook([&](const Tensor& grad) {
    seen = grad;
    return Tensor();
  });
  y.retain_grad();
  sum(y).backward();
  expect_error([&] { sum(mul(x, seen)).backward(); }, {"gradients of gradients", "'mul'"});
  expect_error([&] { sum(mul(x, y.grad())).backward(); }, {"gradients of gradients", "'mul'"});
}

TEST(SecondOrder, DetachedGradientsAreConstants) {
  const Tensor x = leaf({1, 2});
  const Gradients g = gradients(sum(square(x)), {&x, 1});
  sum(mul(x, g[0].detach())).backward();
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2, 4}));
  Tensor norm;
  {
    const NoGrad no_grad;
    norm = sum(square(g[0]));
  }
  x.set_grad({});
  mul(sum(x), norm).backward();
  EXPECT_EQ(x.grad().to_host<double>(), (Values{20, 20}));
}

TEST(UsedHistory, IsNamedBeforeAnythingRuns) {
  const Tensor x = leaf({1, 2}), other = leaf({3, 4});
  const Tensor y = square(x);
  sum(y).backward();
  expect_error([&] { sum(mul(y, other)).backward(); }, {"[backward]", "'square'", "used up"});
  EXPECT_FALSE(other.grad());
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2, 4}));
}

TEST(UsedHistory, ChosenGradientsUseUpWhatLeadsToThem) {
  const Tensor x = leaf({1, 2}), w = leaf({5, 6});
  const Tensor y = square(x), z = mul(y, w);
  EXPECT_EQ(gradients(z, {&y, 1}, tensor_of({1, 1}, Shape{2}))[0].to_host<double>(), (Values{5, 6}));
  expect_error([&] { sum(z).backward(); }, {"'mul'", "used up"});
  sum(y).backward();  // y's own history is still there
  EXPECT_EQ(x.grad().to_host<double>(), (Values{2, 4}));
}

TEST(WrittenInPlace, OperatorsThatNeedTheOldValuesRefuse) {
  const auto writes = std::vector<std::function<void(const Tensor&)>>{
      [](const Tensor& t) { t.zero(); },
      [](const Tensor& t) {
        t.copy_from_host<double>(Values{7, 7});
      },
      [](const Tensor& t) {
        t.copy_from(tensor_of({7, 7}, Shape{2}));
      },
      [](const Tensor& t) { t.as_plain().zero(); },                   // through another handle
      [](const Tensor& t) { t.slice_storage(1, Shape{1}).zero(); }};  // a part
  for (const auto& write : writes) {
    const Tensor x = leaf({1, 2}), w = leaf({3, 4});
    Tensor loss = sum(mul(x, w));
    write(w);
    expect_error([&] { loss.backward(); }, {"[mul]", "written to in place"});
    const Tensor y = softmax(x, 0);  // keeps its result, not x
    const Values p = y.to_host<double>();
    write(x);
    x.set_grad({});
    y.backward(tensor_of({1, 0}, Shape{2}));
    expect_close(x.grad().to_host<double>(), {p[0] * (1 - p[0]), -p[0] * p[1]}, 1e-12, 0, "softmax");
    loss = sum(slice(w, 0, 1, 2));  // keeps nothing
    write(w);
    loss.backward();
    loss = sum(mul(x, w));  // a new forward pass reads the new values
    loss.backward();
  }
  const Tensor x = leaf({1, 2});
  const Tensor y = softmax(x, 0);
  y.zero();
  expect_error([&] { y.backward(tensor_of({1, 0}, Shape{2})); }, {"[softmax]", "written to in place"});
}

TEST(WrittenInPlace, OptimizerStepsBetweenForwardAndBackward) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Optimizer optimizer({{"w", w}}, {.kind = OptimizerKind::sgd});
  sum(mul(x, w)).backward();
  const Tensor stale = sum(mul(x, w));
  optimizer.step(0.1);
  expect_error([&] { stale.backward(); }, {"[mul]", "written to in place"});
}

TEST(WrittenInPlace, RecomputationNoticesToo) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const auto body = [&](std::span<const Tensor> in) { return mul(in[0], w); };
  for (const Tensor& written : {x, w}) {
    const Tensor loss = sum(checkpoint(body, {&x, 1}));
    written.zero();
    expect_error([&] { loss.backward(); }, {"[checkpoint]", "written to in place"});
  }
}

TEST(Failures, LeaveTheEngineUsable) {
  const Tensor x = leaf({1, 2});
  Tensor y = x.clone();
  record("fragile", {x}, y,
         [](const Tensor&) -> Gradients { fail(ExitCode::numerical, "fragile", "broke"); });
  Tensor loss = sum(y);
  expect_error([&] { loss.backward(); }, {"[fragile] broke"});
  EXPECT_TRUE(grad_enabled());
  EXPECT_EQ(CommScope::current(), "");
  expect_error([&] { loss.backward(); }, {"used up"});
  EXPECT_FALSE(x.grad());
  // A hook that throws, inside a recomputed block.
  const auto body = [](std::span<const Tensor> in) {
    const Tensor z = square(in[0]);
    if (z.requires_grad())
      z.register_hook([](const Tensor&) -> Tensor { fail(ExitCode::numerical, "hook", "broke"); });
    return z;
  };
  expect_error([&] { sum(checkpoint(body, {&x, 1})).backward(); }, {"[hook] broke"});
  EXPECT_TRUE(grad_enabled());
  x.zero();  // not taken for part of a backward pass
  sum(exp(x)).backward();
  EXPECT_EQ(x.grad().to_host<double>(), (Values{1, 1}));
}

TEST(Failures, ReducersStartAgain) {
  const MeshAxis axes[] = {{"ddp", 1}, {"domain", -1}};
  const Mesh mesh(world(), axes);
  const std::string name = "domain";
  const Mesh domain = mesh.sub({&name, 1});
  const Tensor w = leaf({1, 2, 3}), late = leaf({1, 1, 1});
  DataParallel parallel(mesh, {{"w", w}, {"late", late}}, {.bucket_bytes = 1, .first_bucket_bytes = 1});
  const Tensor x =
      tensor_of(Values(24, 1.0), Shape{8, 3}, DType::f64, Layout::even(domain, {Shard(0)}, {8, 3}));
  for (const bool fails : {true, false}) {
    parallel.zero_grad();
    Tensor y = mul(x, w);
    if (fails) {
      Tensor broken = y;
      record("fragile", {y}, broken,
             [](const Tensor&) -> Gradients { fail(ExitCode::numerical, "fragile", "broke"); });
      expect_error([&] { sum(mul(broken, late)).backward(); },
                   {"[fragile] broke"});  // late's bucket is under way
      continue;
    }
    sum(mul(y, late)).backward();
    parallel.finish();
  }
  EXPECT_EQ(w.grad().to_host<double>(), (Values{8, 8, 8}));
  EXPECT_EQ(late.grad().to_host<double>(), (Values{8, 16, 24}));
}

// ---------------------------------------------------------------------------------------------------------
// Layouts

TEST(ChosenGradients, OnShardTensors) {
  Random random(22);
  const Values vx = random_values(random, 48), vw = random_values(random, 6);
  struct Result {
    Values x, y, w, middle;
  };
  const auto run = [&](const Layout& layout) {
    const Tensor x = leaf(vx, {8, 6}, layout), w = leaf(vw), unused = leaf(vw);
    const Tensor y = mul(x, w), middle = sum(square(y), std::vector<int>{0}), z = sum(exp(mul(middle, 0.1)));
    const Tensor inputs[] = {x, y, w, unused, middle};
    const Gradients g = gradients(z, inputs);
    EXPECT_TRUE(g[0].layout() == layout);
    EXPECT_TRUE(g[1].layout() == y.layout());
    EXPECT_FALSE(g[2].is_shard());
    EXPECT_FALSE(g[3]);
    EXPECT_TRUE(!layout || g[4].layout() == middle.layout().reduced()) << to_string(layout);
    for (const Tensor& t : {x, w, unused}) EXPECT_FALSE(t.grad());
    return Result{values_of(g[0]), values_of(g[1]), values_of(g[2]), values_of(g[4])};
  };
  const Result want = run({});
  on_layouts([&](const Layout& layout) {
    const Result got = run(layout);
    const std::string what = to_string(layout);
    expect_close(got.x, want.x, 1e-12, 0, what + " x");
    expect_close(got.y, want.y, 1e-12, 0, what + " y");
    expect_close(got.w, want.w, 1e-12, 0, what + " w");
    expect_close(got.middle, want.middle, 1e-12, 0, what + " middle");
  });
  expect_error([&] { gradients(sum(leaf(vw)), std::vector<Tensor>{tensor_of(vw, Shape{6})}); },
               {"[gradients]", "does not require a gradient"});
}

TEST(Hooks, SeeTheLayoutOfTheirTensorAndRunOnce) {
  on_layouts([](const Layout& layout) {
    const Tensor x = leaf(Values(48, 0.5), {8, 6}, layout), w = leaf(Values(6, 2.0));
    int on_x = 0, on_w = 0, on_sum = 0, after = 0;
    const auto expecting = [](int& calls, const Layout& want) {
      return [&calls, want](const Tensor& g) {
        ++calls;
        EXPECT_TRUE(g.layout() == want) << describe(g);
        return mul(g, 2.0);
      };
    };
    const Tensor pending = sum(mul(x, w), std::vector<int>{0});  // Partial where dimension 0 is cut
    x.register_hook(expecting(on_x, layout));
    w.register_hook(expecting(on_w, {}));
    pending.register_hook(expecting(on_sum, pending.layout().reduced()));
    pending.retain_grad();
    w.register_post_accumulate_hook([&] {
      ++after;
      EXPECT_EQ(w.grad().to_host<double>(), Values(6, 4 * 8 * 0.5 * 3)) << to_string(layout);
    });
    sum(mul(pending, 3.0)).backward();
    EXPECT_EQ(std::vector<int>({on_x, on_w, on_sum, after}), std::vector<int>(4, 1));
    EXPECT_EQ(values_of(x.grad()), Values(48, 4 * 2.0 * 3));
    EXPECT_TRUE(pending.grad().layout() == pending.layout().reduced());
    EXPECT_EQ(values_of(pending.grad()), Values(6, 2 * 3.0));
  });
}

// ---------------------------------------------------------------------------------------------------------
// Reductions happen once

struct Uses {
  Tensor cut, whole, w;
};

/// A weight that meets a tensor on a cut grid several times, a replicated one, and plain operators.
Tensor mixed_loss(const Uses& u) {
  const Tensor plain = mul(square(u.w), 0.5), scaled = mul(reshape(u.w, {1, 6}), 2.0);
  Tensor loss = sum(mul(u.cut, u.w));
  loss = add(loss, sum(square(mul(u.cut, plain))));
  loss = add(loss, sum(mul(u.cut, scaled)));
  loss = add(loss, sum(mul(u.whole, u.w)));
  loss = add(loss, sum(exp(mul(u.whole, plain))));
  return add(loss, sum(square(u.w)));
}

Uses uses_on(const Layout& layout) {
  Random random(5);
  const Values cut = random_values(random, 48), whole = random_values(random, 12),
               w = random_values(random, 6);
  const Layout replicated = layout ? Layout::replicated(layout.mesh(), {2, 6}) : Layout();
  return {tensor_of(cut, {8, 6}, DType::f64, layout), tensor_of(whole, {2, 6}, DType::f64, replicated),
          leaf(w)};
}

TEST(PartialGradients, AreReducedOnce) {
  const Uses plain = uses_on({});
  mixed_loss(plain).backward();
  Random random(23);
  for (const Mesh& mesh : meshes(2)) {
    // Rows cut: each rank's contribution to the weight is an addend.
    Placements placements = Placements::filled(mesh.axes(), Replicate());
    placements[mesh.axes() - 1] = Shard(0);
    const Layout layout(
        mesh, placements, {8, 6},
        std::vector<Partition>(static_cast<std::size_t>(mesh.axes()),
                               random_cuts(random, 8, mesh.axis_size(mesh.axes() - 1), Cuts::uneven)));
    const bool several = mesh.axis_size(mesh.axes() - 1) > 1;
    const Uses now = uses_on(layout), later = uses_on(layout);
    Tensor loss = mixed_loss(now);
    CommStats::global().reset();
    loss.backward();
    EXPECT_EQ(CommStats::global().total("all_reduce").calls, several ? 1U : 0U)
        << CommStats::global().report();
    EXPECT_EQ(CommStats::global().total("send").calls, 0U) << CommStats::global().report();
    expect_close(now.w.grad().to_host<double>(), plain.w.grad().to_host<double>(), 1e-12, 0,
                 to_string(layout));
    // Left to somebody else: nothing travels, and the addends add up.
    later.w.defer_domain_sum(mesh);
    loss = mixed_loss(later);
    CommStats::global().reset();
    loss.backward();
    EXPECT_TRUE(CommStats::global().counts().empty()) << CommStats::global().report();
    Values total = later.w.grad().to_host<double>();
    mesh.comm().all_reduce(total.data(), 6, DType::f64, ReduceOp::sum);
    expect_close(total, plain.w.grad().to_host<double>(), 1e-12, 0, to_string(layout));
  }
}

TEST(PartialGradients, AnyLayoutOfTheWeightsPartner) {
  const Uses plain = uses_on({});
  mixed_loss(plain).backward();
  on_layouts([&](const Layout& layout) {
    const Uses now = uses_on(layout), later = uses_on(layout);
    mixed_loss(now).backward();
    expect_close(now.w.grad().to_host<double>(), plain.w.grad().to_host<double>(), 1e-12, 0,
                 to_string(layout));
    later.w.defer_domain_sum(layout.mesh());
    mixed_loss(later).backward();
    Values total = later.w.grad().to_host<double>();
    layout.mesh().comm().all_reduce(total.data(), 6, DType::f64, ReduceOp::sum);
    expect_close(total, plain.w.grad().to_host<double>(), 1e-12, 0, to_string(layout) + " deferred");
  });
}

TEST(PartialGradients, EmbeddingsOfCellsAreNotGathered) {
  // One value per cell, added to a tensor on a cut grid, as it is and through a plain reshape.
  on_layouts([&](const Layout& layout) {
    const Tensor x = tensor_of(Values(48, 1.0), {8, 6}, DType::f64, layout);
    Random random(24);
    const Values values = random_values(random, 48), twice(48, 2.0);
    const Tensor direct = leaf(values, {8, 6}), flat = leaf(values);
    for (const Tensor& t : {direct, flat}) t.defer_domain_sum(layout.mesh());
    const Tensor y = mul(add(add(x, direct), reshape(flat, {8, 6})), 2.0);
    CommStats::global().reset();
    y.backward(tensor_of(Values(48, 1.0), {8, 6}, DType::f64, layout));
    EXPECT_TRUE(CommStats::global().counts().empty()) << CommStats::global().report();
    for (const Tensor& t : {direct, flat}) {
      Values total = t.grad().to_host<double>();
      layout.mesh().comm().all_reduce(total.data(), 48, DType::f64, ReduceOp::sum);
      EXPECT_EQ(total, twice) << to_string(layout);
    }
  });
}

}  // namespace
}  // namespace tessera::testing
