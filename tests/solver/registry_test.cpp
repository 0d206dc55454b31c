// The registry's claims about what moves, held against what does; promotion, fallback, and rules of one's
// own.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/registry/local_operator.hpp"
#include "solver/ops/registry/operator_table.hpp"
#include "solver/ops/registry/rules.hpp"
#include "tests/solver/operator_samples.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

Mesh line() {
  const MeshAxis axis{"domain", -1};
  return Mesh(world(), {&axis, 1});
}

/// Ones, plain or with this dimension cut.
Tensor cut(const Mesh& mesh, const Shape& shape, int dim, DType type = DType::f32) {
  const std::vector<double> ones(static_cast<std::size_t>(count(shape)), 1.0);
  return tensor_of(ones, shape, type, dim < 0 ? Layout() : Layout::even(mesh, {Shard(dim)}, shape));
}

struct Traffic {
  std::int64_t messages = 0, collectives = 0;  // of all ranks
};

Traffic traffic_of(const std::function<void()>& body) {
  CommStats::global().reset();
  body();
  const auto mine = static_cast<std::int64_t>(CommStats::global().total("send").calls);
  const auto collectives = static_cast<std::int64_t>(CommStats::global().collective_calls());
  return {world()->all_reduce_value(mine, ReduceOp::sum),
          world()->all_reduce_value(collectives, ReduceOp::sum)};
}

void expect_claim(const Operator& op, const Cut& claim, const Traffic& moved, const Tensor& y) {
  const std::string what = op.name + ", " + claim.dimension + " cut";
  switch (claim.forward) {
    case Moves::nothing:
    case Moves::partial:
      EXPECT_EQ(moved.messages + moved.collectives, 0) << what;
      EXPECT_EQ(y.layout().has_partial(), claim.forward == Moves::partial) << what;
      break;
    case Moves::halo:
    case Moves::ring:
    case Moves::exchange:
      EXPECT_GT(moved.messages, 0) << what;
      EXPECT_EQ(moved.collectives, 0) << what;
      break;
    case Moves::reduction:
    case Moves::gather:
      EXPECT_GT(moved.messages + moved.collectives, 0) << what;
      break;
  }
}

TEST(Registry, WhatMovesIsWhatIsClaimed) {
  if (world()->size() == 1) GTEST_SKIP() << "nothing moves on one rank";
  const Mesh mesh = line();
  const std::vector<OperatorSample> samples = operator_samples();
  for (const Operator* op : registered_operators()) {
    if (op->family == "test") continue;
    for (const Cut& claim : op->cuts) {
      const auto sample = std::find_if(samples.begin(), samples.end(), [&](const OperatorSample& s) {
        return s.name == op->name && s.cuts.count(claim.dimension);
      });
      if (sample == samples.end()) {
        ADD_FAILURE() << "no sample of " << op->name << " with " << claim.dimension << " cut";
        continue;
      }
      const std::vector<int>& dims = sample->cuts.at(claim.dimension);
      std::vector<Tensor> operands;
      for (std::size_t i = 0; i < sample->shapes.size(); ++i) {
        const int dim = i < dims.size() ? dims[i] : -1;
        operands.push_back(cut(mesh, sample->shapes[i], dim));
      }
      Tensor y;
      const Traffic moved = traffic_of([&] { y = sample->call(operands); });
      expect_claim(*op, claim, moved, y);
    }
  }
}

TEST(Registry, ThePageListsWhatIsRegistered) {
  std::ifstream file(TESSERA_OPERATOR_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  // Operators of this test are registered as well.
  std::string table = operator_table();
  const std::size_t own = table.find("### test\n");
  if (own != std::string::npos) {
    const std::size_t next = table.find("### ", own + 4);
    table.erase(own, next == std::string::npos ? next : next - own);
  }
  EXPECT_NE(page.str().find(table), std::string::npos) << "solver/ops/README.md should contain:\n" << table;
}

const Operator& kSwish = register_operator({.name = "test_swish",
                                            .signature = "swish(x, beta)",
                                            .family = "test",
                                            .rule = index_rule("... c, c -> ... c")});

/// y = x * (beta + 1), with local kernels on the host.
Tensor scaled(const Operator& op, const Tensor& x, const Tensor& beta) {
  const OperatorCall call(op, {x, beta});
  return apply_locally(
      call, x.shape(),
      [](std::span<const Tensor> in, const Tensor& y) {
        std::vector<double> values = in[0].to_host<double>();
        const std::vector<double> factor = in[1].to_host<double>();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factor[i % factor.size()] + 1;
        y.copy_from_host<double>(values);
      },
      [](std::span<const Tensor> in, const Tensor&, const Tensor& grad) {
        std::vector<double> gx = grad.to_host<double>(), gb(static_cast<std::size_t>(in[1].local_count()), 0);
        const std::vector<double> x_values = in[0].to_host<double>(), factor = in[1].to_host<double>();
        for (std::size_t i = 0; i < gx.size(); ++i) {
          gb[i % gb.size()] += gx[i] * x_values[i];
          gx[i] *= factor[i % factor.size()] + 1;
        }
        Gradients grads{Tensor::empty_like(in[0]), Tensor::empty_like(in[1])};
        grads[0].copy_from_host<double>(gx);
        grads[1].copy_from_host<double>(gb);
        return grads;
      });
}

void expect_scaled(const Operator& op, const Layout& lx, const Layout& lb) {
  Random random(7);
  const Shape shape{5, 3, 4};
  const std::vector<double> x_values = random_values(random, 60), b_values = random_values(random, 4),
                            cotangent = random_values(random, 60);
  const auto run = [&](const Layout& of_x, const Layout& of_b) {
    const Tensor x = tensor_of(x_values, shape, DType::f64, of_x),
                 b = tensor_of(b_values, {4}, DType::f64, of_b);
    x.set_requires_grad();
    b.set_requires_grad();
    const Tensor y = scaled(op, x, b);
    y.backward(tensor_of(cotangent, shape, DType::f64, y.layout()));
    return std::vector{values_of(y), values_of(x.grad()), values_of(b.grad())};
  };
  const auto want = run({}, {}), got = run(lx, lb);
  for (std::size_t i = 0; i < want.size(); ++i)
    expect_close(got[i], want[i], 1e-13, 0, "result " + std::to_string(i));
}

TEST(Registry, AnOperatorOfOnesOwnRunsOnEveryLayout) {
  Random random(3);
  for (const Mesh& mesh : meshes(2)) {
    for (const Cuts cuts : {Cuts::even, Cuts::uneven, Cuts::empty}) {
      for (int n = 0; n < 4; ++n) {
        const Layout lx = random_layout(random, mesh, {5, 3, 4}, {0, 1, 2}, cuts);
        expect_scaled(kSwish, lx, n % 2 ? random_layout(random, mesh, {4}, {0}, cuts) : Layout());
      }
    }
  }
}

const Operator& kRuleless =
    register_operator({.name = "test_ruleless", .signature = "ruleless(x, beta)", .family = "test"});

TEST(Registry, WithoutARuleOperandsAreMadeWholeAndTheCallIsCounted) {
  const Layout layout = Layout::even(line(), {Shard(0)}, {5, 3, 4});
  CommStats::global().reset();
  expect_scaled(kRuleless, layout, {});
  EXPECT_EQ(CommStats::global().total(CommStats::kFallback).calls, 1U);
  const Tensor x = Tensor::zeros(layout, DType::f64), beta = Tensor::full({4}, 1, DType::f64);
  EXPECT_EQ(scaled(kRuleless, x, beta).layout(), Layout::replicated(layout.mesh(), layout.shape()));
}

const Operator& kKept = register_operator(
    {.name = "test_kept", .signature = "kept(x, beta)", .family = "test", .rule = keep_rule()});

TEST(Registry, ARuleThatLeavesTheResultOpenGivesItTheLayoutOfTheOperandThatIsCut) {
  const Mesh mesh = line();
  const Shape shape{5, 3, 4};
  for (const int dim : {0, 1}) {
    const Layout layout = Layout::even(mesh, {Shard(dim)}, shape);
    expect_scaled(kKept, layout, {});
    expect_scaled(kKept, layout, Layout::replicated(mesh, {4}));
  }
  const Tensor x = cut(mesh, shape, 0, DType::f64), beta = cut(mesh, {4}, 0, DType::f64);
  EXPECT_THROW(scaled(kKept, x, beta), Error);
}

TEST(Registry, TheFallbackCanBeForbiddenAndARuleRegisteredLater) {
  const Operator& op =
      register_operator({.name = "test_late", .signature = "late(x, beta)", .family = "test"});
  const Tensor x = cut(line(), {5, 3, 4}, 0, DType::f64), beta = Tensor::full({4}, 1, DType::f64);
  const FallbackScope no_fallback(Fallback::error);
  try {
    scaled(op, x, beta);
    FAIL() << "no MissingShardRule";
  } catch (const MissingShardRule& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("[test_late]"), std::string::npos) << text;
    EXPECT_NE(text.find("Shard(0)"), std::string::npos) << text;
  }
  register_rule("test_late", index_rule("... c, c -> ... c"));
  EXPECT_EQ(scaled(op, x, beta).layout(), x.layout());
}

TEST(Registry, NamesAreTakenOnce) {
  EXPECT_THROW(register_operator({.name = "relu"}), Error);
  EXPECT_THROW(register_rule("test_unknown", keep_rule()), Error);
  EXPECT_EQ(find_operator("test_unknown"), nullptr);
  ASSERT_NE(find_operator("conv"), nullptr);
}

TEST(Registry, PlainOperandsAreTakenSilentlyWithAWarningOrNot) {
  const Tensor x = cut(line(), {5, 4}, 0), w = Tensor::full({4}, 2);
  EXPECT_NO_THROW(mul(x, w));
  {
    const PromotionScope strict(Promotion::error);
    EXPECT_THROW(mul(x, w), Error);
    EXPECT_NO_THROW(mul(x, promote(w, x.layout().mesh())));
    {
      const PromotionScope lenient(Promotion::silent);
      EXPECT_NO_THROW(mul(x, w));
    }
    EXPECT_THROW(mul(x, w), Error);
  }
  EXPECT_NO_THROW(mul(x, w));
  const PromotionScope warning(Promotion::warn);
  ::testing::internal::CaptureStderr();
  mul(x, w);
  mul(x, w);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const bool speaks = x.layout().mesh().rank() == 0;
  EXPECT_EQ(said.find("[mul] operand 1 is plain") != std::string::npos, speaks) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), speaks ? 1 : 0) << said;
}

TEST(Registry, OperandsOfDifferentMeshesAreRefused) {
  const MeshAxis other_axis{"other", -1};
  const Mesh other(world(), {&other_axis, 1});
  const Tensor x = cut(line(), {5, 4}, 0), y = cut(other, {5, 4}, 0);
  ASSERT_FALSE(x.layout().mesh() == y.layout().mesh());
  EXPECT_THROW(add(x, y), Error);
}

TEST(IndexRule, TextThatMakesNoSenseIsRefused) {
  EXPECT_THROW(index_rule("a b"), Error);
  EXPECT_THROW(index_rule("a ... -> a"), Error);
  EXPECT_THROW(index_rule("a 1 -> a"), Error);
  EXPECT_THROW(index_rule("a a -> a"), Error);
}

TEST(IndexRule, CutsSharedDimensionsAndLeavesContractedOnesPending) {
  const Mesh mesh = line();
  const ShardRule product = index_rule("m k, k n -> m n");
  const Tensor a = cut(mesh, {6, 4}, 1), b = Tensor::full({4, 5}, 1);
  const std::vector<Tensor> operands{a, b};
  const Sharding s = *product(operands, {});
  EXPECT_EQ(s.operands[0].placement(0), Shard(1));
  EXPECT_EQ(s.operands[1].placement(0), Shard(0));
  EXPECT_EQ(s.operands[1].partition(0), a.layout().partition(0));
  EXPECT_EQ(s.result.placement(0), Partial());
}

TEST(IndexRule, ExtentsThatDisagreeAreRefused) {
  const std::vector<Tensor> operands{cut(line(), {6, 4}, 1), Tensor::full({5, 5}, 1)};
  EXPECT_THROW(index_rule("m k, k n -> m n")(operands, {}), Error);
}

TEST(IndexRule, MarkedDimensionsAreMadeWhole) {
  const Mesh mesh = line();
  const std::vector<Tensor> operands{cut(mesh, {6, 4}, 1), Tensor::full({6}, 1)};
  const Sharding s = *index_rule("n !c, n -> n")(operands, {});
  EXPECT_TRUE(s.operands[0].is_replicated());
  EXPECT_TRUE(s.result.is_replicated());
}

}  // namespace
}  // namespace tessera::testing
