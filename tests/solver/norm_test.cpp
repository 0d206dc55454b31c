// Normalisations.
#include <cmath>

#include <gtest/gtest.h>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/norm/norm.hpp"
#include "tests/support/operator_case.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::OperatorCase;
using testing::Random;
using Values = std::vector<double>;

enum class Kind { layer, layer_wide, group, instance, batch, batch_fixed };
constexpr Kind kKinds[] = {Kind::layer,    Kind::layer_wide, Kind::group,
                           Kind::instance, Kind::batch,      Kind::batch_fixed};
const Shape kShape{2, 5, 7, 12};

OperatorCase norm_case(Random& random, Kind kind, bool affine) {
  OperatorCase c;
  c.text = "norm " + std::to_string(static_cast<int>(kind)) + (affine ? " affine" : "");
  c.add(random, "x", kShape, {0, 1, 2, 3});
  const Shape parameters = kind == Kind::layer_wide ? Shape{7, 12} : Shape{12};
  if (affine) {
    c.add(random, "weight", parameters,
          kind == Kind::layer_wide ? std::vector<int>{0, 1} : std::vector<int>{0});
    c.add(random, "bias", parameters, {0});
  }
  c.op = [=](std::span<const Tensor> in) {
    const Tensor weight = affine ? in[1] : Tensor{}, bias = affine ? in[2] : Tensor{};
    switch (kind) {
      case Kind::layer:
      case Kind::layer_wide:
        return layer_norm(in[0], parameters, weight, bias);
      case Kind::group:
        return group_norm(in[0], 3, weight, bias);
      case Kind::instance:
        return instance_norm(in[0], weight, bias);
      case Kind::batch:
        return batch_norm(in[0], {}, {}, weight, bias);
      default:
        return batch_norm(in[0], Tensor::full(Shape{12}, 0.25, DType::f64),
                          Tensor::full(Shape{12}, 2, DType::f64), weight, bias, {.training = false});
    }
  };
  return c;
}

/// The set of values that element i is normalised with.
int set_of(Kind kind, int i) {
  const int c = i % 12, row = i / 12, b = i / (12 * 35);
  switch (kind) {
    case Kind::layer:
      return row;
    case Kind::layer_wide:
      return row / 7;
    case Kind::group:
      return b * 3 + c / 4;
    case Kind::instance:
      return b * 12 + c;
    default:
      return c;
  }
}

Values naive(Kind kind, const OperatorCase& c) {
  const Values& x = c.operands[0].values;
  const int n = static_cast<int>(x.size());
  std::vector<double> sum(200), square(200), members(200);
  for (int i = 0; i < n; ++i) {
    const auto s = static_cast<std::size_t>(set_of(kind, i));
    sum[s] += x[static_cast<std::size_t>(i)];
    members[s] += 1;
  }
  for (int i = 0; i < n; ++i) {
    const auto s = static_cast<std::size_t>(set_of(kind, i));
    square[s] += std::pow(x[static_cast<std::size_t>(i)] - sum[s] / members[s], 2);
  }
  Values y(x.size());
  const std::size_t period = c.operands[1].values.size();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto s = static_cast<std::size_t>(set_of(kind, static_cast<int>(i)));
    const bool fixed = kind == Kind::batch_fixed;
    const double mean = fixed ? 0.25 : sum[s] / members[s], variance = fixed ? 2 : square[s] / members[s];
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * c.operands[1].values[i % period] +
           c.operands[2].values[i % period];
  }
  return y;
}

TEST(Norm, AgreesWithLoopsAndDifferences) {
  Random random(11);
  for (const Kind kind : kKinds) {
    OperatorCase c = norm_case(random, kind, true);
    const testing::Outcome outcome = testing::run_case(c, DType::f64);
    testing::expect_close(outcome.outputs[0], naive(kind, c), 1e-12, 1e-12, c.text);
    testing::expect_finite_differences(c, random, outcome);
  }
}

TEST(Norm, SameUnderAllLayouts) {
  Random random(12);
  for (int i = 0; i < 3; ++i) {
    for (const Kind kind : kKinds) {
      OperatorCase c = norm_case(random, kind, i > 0);
      const testing::Outcome want = testing::run_case(c, DType::f64);
      testing::expect_same_under_layouts(c, random, want, DType::f64, 1e-11);
      testing::expect_same_under_layouts(c, random, want, DType::f32, 1e-5);
    }
  }
}

TEST(Norm, SurvivesALargeMeanAndUnequalShards) {
  Random random(13);
  for (const Kind kind : kKinds) {
    if (kind == Kind::batch_fixed) continue;
    OperatorCase c = norm_case(random, kind, true);
    // Exactly representable in f32, so that only the operator's own rounding counts.
    for (double& v : c.operands[0].values) v = 4096 + std::round(v * 1024) / 1024;
    const testing::Outcome want = testing::run_case(c, DType::f64);
    testing::expect_same_under_layouts(c, random, want, DType::f32, 1e-3);
  }
}

TEST(Norm, LongRowsAndManyRows) {
  Random random(14);
  OperatorCase c;
  c.text = "long";
  c.add(random, "x", Shape{3, 1001, 11}, {0, 1});
  const auto compare = [&] {
    const testing::Outcome want = testing::run_case(c, DType::f64);
    testing::expect_same_under_layouts(c, random, want, DType::f32, 1e-5);
  };
  c.op = [](std::span<const Tensor> in) { return layer_norm(in[0], Shape{1001, 11}, {}, {}); };
  compare();
  c.op = [](std::span<const Tensor> in) { return group_norm(in[0], 11, {}, {}); };
  compare();
  c.op = [](std::span<const Tensor> in) { return batch_norm(in[0], {}, {}, {}, {}); };
  compare();
}

TEST(Norm, GroupNormGeluIsGeluOfGroupNormPlusResidual) {
  Random random(17);
  for (const bool has_residual : {false, true}) {
    OperatorCase c = norm_case(random, Kind::group, true);
    c.text = has_residual ? "group_norm_gelu with residual" : "group_norm_gelu";
    if (has_residual) c.add(random, "residual", kShape, {0, 1, 2, 3});
    const auto residual = [=](std::span<const Tensor> in) { return has_residual ? in[3] : Tensor(); };
    c.op = [=](std::span<const Tensor> in) {
      const Tensor y = group_norm(in[0], 3, in[1], in[2]);
      return gelu(has_residual ? add(y, residual(in)) : y);
    };
    const testing::Outcome want = testing::run_case(c, DType::f64);
    c.op = [=](std::span<const Tensor> in) { return group_norm_gelu(in[0], 3, in[1], in[2], residual(in)); };
    const testing::Outcome got = testing::run_case(c, DType::f64);
    testing::expect_close(got.outputs[0], want.outputs[0], 1e-13, 1e-13, c.text);
    for (std::size_t i = 0; i < want.gradients.size(); ++i) {
      testing::expect_close(got.gradients[i], want.gradients[i], 1e-12, 1e-12, c.text);
    }
    testing::expect_same_under_layouts(c, random, want, DType::f64, 1e-11);
    testing::expect_same_under_layouts(c, random, want, DType::f32, 1e-5);
  }
}

TEST(BatchNorm, RunningStatisticsFollowTheGlobalBatch) {
  Random random(15);
  const Values x = testing::random_values(random, 60);  // (1, 12, 5)
  for (const Mesh& mesh : testing::meshes()) {
    const Tensor mean = Tensor::zeros(Shape{5}), variance = Tensor::full(Shape{5}, 1);
    const Layout layout = testing::random_layout(random, mesh, Shape{1, 12, 5}, {1}, testing::Cuts::empty);
    batch_norm(testing::tensor_of(x, Shape{1, 12, 5}, DType::f32, layout), mean, variance, {}, {},
               {.momentum = 0.3});
    for (std::size_t ch = 0; ch < 5; ++ch) {
      double m = 0, v = 0;
      for (std::size_t i = 0; i < 12; ++i) m += x[i * 5 + ch] / 12;
      for (std::size_t i = 0; i < 12; ++i) v += (x[i * 5 + ch] - m) * (x[i * 5 + ch] - m) / 11;
      EXPECT_NEAR(mean.to_host<double>()[ch], 0.3 * m, 1e-6);
      EXPECT_NEAR(variance.to_host<double>()[ch], 0.7 + 0.3 * v, 1e-6);
    }
  }
}

TEST(BatchNorm, MergesOverReplicas) {
  Random random(16);
  const CommPtr world = testing::world();
  const Index ranks = world->size();
  OperatorCase c;
  c.add(random, "x", Shape{ranks, 6, 5}, {0});
  c.op = [](std::span<const Tensor> in) { return batch_norm(in[0], {}, {}, {}, {}); };
  const testing::Outcome want = testing::run_case(c, DType::f64);
  // Each rank has one sample as a plain tensor.
  const auto part = [&](const Values& all) {
    return Values(all.begin() + world->rank() * 30, all.begin() + (world->rank() + 1) * 30);
  };
  const Tensor x = testing::tensor_of(part(c.operands[0].values), Shape{1, 6, 5});
  x.set_requires_grad();
  const Tensor y = batch_norm(x, {}, {}, {}, {}, {.replicas = world});
  y.backward(testing::tensor_of(part(c.cotangents[0]), Shape{1, 6, 5}));
  testing::expect_close(y.to_host<double>(), part(want.outputs[0]), 1e-12, 1e-12, "y");
  testing::expect_close(x.grad().to_host<double>(), part(want.gradients[0]), 1e-12, 1e-12, "gradient");
}

TEST(Norm, SpeaksOfWhatDoesNotFit) {
  const Tensor x = Tensor::zeros(Shape{1, 3, 4});
  EXPECT_THROW(layer_norm(x, Shape{5}, {}, {}), Error);
  EXPECT_THROW(group_norm(x, 3, {}, {}), Error);
  EXPECT_THROW(batch_norm(x, {}, {}, {}, {}, {.training = false}), Error);
  EXPECT_THROW(batch_norm(Tensor::zeros(Shape{1, 1, 4}), {}, {}, {}, {}), Error);
}

}  // namespace
}  // namespace tessera
