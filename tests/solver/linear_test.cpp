// Matrix products and linear layers.
#include <cmath>

#include <gtest/gtest.h>

#include "solver/ops/linear/gemm.hpp"
#include "solver/ops/linear/linear.hpp"
#include "tests/support/operator_case.hpp"

namespace tessera {
namespace {

using testing::OperatorCase;
using testing::pick;
using testing::Random;
using Values = std::vector<double>;

Tensor filled(Random& random, Index count, DType type) {
  return testing::tensor_of(testing::random_values(random, count), Shape{count}, type);
}

/// Compares a product with loops; rows are `padding` elements longer than they need to be, matrices of a
/// batch as far apart as `rows` rows.
void check_gemm(Random& random, Gemm g, bool biased, Index padding, Index rows, double tolerance) {
  const DType type = g.type, out = g.out;
  const auto gap = [&] { return pick(random, 0, padding); };
  g.lda = (g.transpose_a ? g.m : g.k) + gap();
  g.ldb = (g.transpose_b ? g.k : g.n) + gap();
  g.ldc = g.n + gap();
  g.stride_a = g.lda * rows;
  g.stride_b = g.ldb * rows;
  g.stride_c = g.ldc * rows;
  const Tensor a = filled(random, g.stride_a * g.batch + 1, type),
               b = filled(random, g.stride_b * g.batch + 1, type);
  const Tensor c = filled(random, g.stride_c * g.batch + 1, out), bias = filled(random, g.n + 1, out);
  const Values va = a.to_host<double>(), vb = b.to_host<double>(), vbias = bias.to_host<double>();
  Values want = c.to_host<double>();
  const auto at = [](const Values& v, Index i) { return v[static_cast<std::size_t>(i)]; };
  for (Index s = 0; s < g.batch; ++s) {
    for (Index i = 0; i < g.m; ++i) {
      for (Index j = 0; j < g.n; ++j) {
        double& sum = want[static_cast<std::size_t>(s * g.stride_c + i * g.ldc + j)];
        if (!g.accumulate) sum = biased ? at(vbias, j) : 0;
        for (Index k = 0; k < g.k; ++k) {
          sum += at(va, s * g.stride_a + (g.transpose_a ? k * g.lda + i : i * g.lda + k)) *
                 at(vb, s * g.stride_b + (g.transpose_b ? j * g.ldb + k : k * g.ldb + j));
        }
      }
    }
  }
  gemm(g, a.raw(), b.raw(), c.raw(), biased ? bias.raw() : nullptr);
  testing::expect_close(c.to_host<double>(), want, tolerance, tolerance,
                        fmt::format("{} x {} x {} batch {} transposes {} {} in {}", g.m, g.n, g.k, g.batch,
                                    g.transpose_a, g.transpose_b, name_of(type)));
}

void check_small_gemm(Random& random, DType type, DType out, double tolerance) {
  Gemm g{.m = pick(random, 0, 9), .n = pick(random, 0, 9), .k = pick(random, 0, 9), .type = type, .out = out};
  g.transpose_a = pick(random, 0, 1);
  g.transpose_b = pick(random, 0, 1);
  g.batch = pick(random, 1, 3);
  const bool biased = pick(random, 0, 2) == 0;
  g.accumulate = !biased && pick(random, 0, 1);
  check_gemm(random, g, biased, 2, 10, tolerance);
}

/// Shapes large enough for the library's other kernel: few columns, and wide transposed matrices.
TEST(Gemm, LargeAgreesWithLoops) {
  Random random(2);
  const Gemm shapes[] = {{.m = 150, .n = 64, .k = 129},
                         {.m = 130, .n = 127, .k = 70, .batch = 2},
                         {.m = 1100, .n = 33, .k = 40, .transpose_a = true},
                         {.m = 25, .n = 1040, .k = 50, .transpose_a = true, .batch = 2},
                         {.m = 150, .n = 64, .k = 129, .transpose_b = true}};
  for (Gemm g : shapes) {
    for (const Index padding : {0, 3}) {
      for (const bool accumulate : {false, true}) {
        g.accumulate = accumulate;
        check_gemm(random, g, false, padding, 1100, 1e-6);
      }
      g.accumulate = false;
      check_gemm(random, g, true, padding, 1100, 1e-6);
    }
  }
}

TEST(Gemm, AgreesWithLoops) {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    check_small_gemm(random, DType::f64, DType::f64, 1e-14);
    check_small_gemm(random, DType::f32, DType::f32, 1e-6);
  }
  for (int i = 0; i < 10; ++i) {
    check_small_gemm(random, DType::bf16, DType::f32, 1e-5);
    check_small_gemm(random, DType::bf16, DType::bf16, 1e-2);
  }
}

OperatorCase linear_case(Random& random, bool biased) {
  OperatorCase c;
  c.text = biased ? "linear" : "linear without bias";
  c.add(random, "x", Shape{2, 5, 6, 7}, {0, 1, 2, 3});
  c.add(random, "weight", Shape{9, 7}, {0, 1});
  if (biased) c.add(random, "bias", Shape{9}, {0});
  c.op = [](std::span<const Tensor> in) { return linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor{}); };
  return c;
}

TEST(Linear, AgreesWithLoopsAndDifferences) {
  Random random(2);
  OperatorCase c = linear_case(random, true);
  const testing::Outcome outcome = testing::run_case(c, DType::f64);
  Values want(60 * 9);
  for (std::size_t r = 0; r < 60; ++r) {
    for (std::size_t o = 0; o < 9; ++o) {
      double& y = want[r * 9 + o];
      y = c.operands[2].values[o];
      for (std::size_t i = 0; i < 7; ++i)
        y += c.operands[0].values[r * 7 + i] * c.operands[1].values[o * 7 + i];
    }
  }
  testing::expect_close(outcome.outputs[0], want, 1e-14, 1e-14, "linear");
  testing::expect_finite_differences(c, random, outcome);
}

TEST(Linear, SameUnderAllLayouts) {
  Random random(3);
  for (int i = 0; i < 8; ++i) {
    OperatorCase c = linear_case(random, i % 2 == 0);
    const testing::Outcome want = testing::run_case(c, DType::f64);
    testing::expect_same_under_layouts(c, random, want, DType::f64, 1e-12);
    testing::expect_same_under_layouts(c, random, want, DType::f32, 3e-6);
  }
}

TEST(Linear, MixedPrecisionKeepsWeightGradientsInSingle) {
  Random random(4);
  OperatorCase c = linear_case(random, true);
  const testing::Outcome want = testing::run_case(c, DType::f64);
  c.operands[1].type = c.operands[2].type = DType::f32;
  const testing::Outcome got = testing::run_case(c, DType::bf16);
  testing::expect_close(got.outputs[0], want.outputs[0], 2e-2, 0, "y");
  for (std::size_t i = 0; i < 3; ++i)
    testing::expect_close(got.gradients[i], want.gradients[i], 2e-2, 0, "gradient");
}

}  // namespace
}  // namespace tessera
