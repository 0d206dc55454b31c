// Attention over tokens on any layout, and neighbourhood attention.
#include <cmath>

#include <gtest/gtest.h>

#include "parallel/comm_stats.hpp"
#include "solver/ops/attention/attention.hpp"
#include "solver/ops/attention/exponential.hpp"
#include "solver/ops/neighborhood_attention/neighborhood_attention.hpp"
#include "solver/tensor/autograd.hpp"
#include "tests/support/operator_case.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::all_dims;
using testing::Cuts;
using testing::OperatorCase;
using testing::pick;
using testing::Random;
using Values = std::vector<double>;

/// Row-major index of an element given by tokens of (B, N, H, d).
std::size_t at(Index tokens, Index heads, Index depth, Index b, Index i, Index h, Index c) {
  return static_cast<std::size_t>(((b * tokens + i) * heads + h) * depth + c);
}

/// Softmax attention by loops over one query's visible keys; `score(b, h, i, j)` is -infinity for hidden
/// ones.
template <typename Score>
Values attend_by_loops(Index batch, Index nq, Index nk, Index heads, Index dv, const Values& v,
                       const Score& score) {
  Values out(static_cast<std::size_t>(batch * nq * heads * dv));
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < nq; ++i) {
      for (Index h = 0; h < heads; ++h) {
        Values s;
        double top = -INFINITY, sum = 0;
        for (Index j = 0; j < nk; ++j) {
          s.push_back(score(b, h, i, j));
          top = std::max(top, s.back());
        }
        if (top == -INFINITY) continue;
        for (double& x : s) sum += x = std::exp(x - top);
        for (Index j = 0; j < nk; ++j) {
          for (Index c = 0; c < dv; ++c) {
            out[at(nq, heads, dv, b, i, h, c)] +=
                s[static_cast<std::size_t>(j)] / sum * v[at(nk, heads, dv, b, j, h, c)];
          }
        }
      }
    }
  }
  return out;
}

double inner(const Values& q, std::size_t qi, const Values& k, std::size_t ki, Index d) {
  double sum = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(d); ++c) sum += q[qi + c] * k[ki + c];
  return sum;
}

enum class Masking { none, boolean, additive };

struct AttentionCase : OperatorCase {
  Shape q_grid, k_grid;
  bool causal = false;
  Masking masking = Masking::none;
  std::optional<double> scale;
  AttentionMethod method = AttentionMethod::automatic;
};

constexpr Index kBatch = 2, kHeads = 4, kDepth = 5, kValueDepth = 3;

Shape operand_shape(const Shape& grid, Index depth) {
  Shape shape{kBatch};
  for (const Index n : grid) shape.push_back(n);
  shape.push_back(kHeads);
  shape.push_back(depth);
  return shape;
}

AttentionCase attention_case(Random& random, int seed) {
  AttentionCase c;
  const auto grid = [&] {
    return pick(random, 0, 1) ? Shape{pick(random, 1, 6), pick(random, 1, 5)} : Shape{pick(random, 1, 14)};
  };
  c.q_grid = grid();
  c.k_grid = seed % 3 == 0 ? c.q_grid : grid();
  c.causal = pick(random, 0, 2) == 0;
  c.method = static_cast<AttentionMethod>(pick(random, 0, 2));
  c.masking = static_cast<Masking>(seed % 4 < 2 ? 0 : seed % 4 - 1);
  if (pick(random, 0, 1)) c.scale = 0.7;
  const Shape q = operand_shape(c.q_grid, kDepth), k = operand_shape(c.k_grid, kDepth),
              v = operand_shape(c.k_grid, kValueDepth);
  c.add(random, "q", q, all_dims(q));
  c.add(random, "k", k, all_dims(k));
  c.add(random, "v", v, all_dims(v));
  for (double& x : c.operands[0].values) x *= 2;
  if (c.masking != Masking::none) {
    const Shape mask{pick(random, 0, 1) ? kBatch : 1, pick(random, 0, 1) ? kHeads : 1, count(c.q_grid),
                     count(c.k_grid)};
    c.add(random, "mask", mask, all_dims(mask));
    c.operands[3].differentiable = false;
    if (c.masking == Masking::boolean) {
      c.operands[3].type = DType::u8;
      for (double& x : c.operands[3].values) x = x < 0.4;
      // The first query sees nothing.
      for (std::size_t j = 0; j < static_cast<std::size_t>(mask[3]); ++j) c.operands[3].values[j] = 0;
    }
  }
  c.text = fmt::format("attention {}{}{}", seed, c.causal ? " causal" : "",
                       c.masking == Masking::none      ? ""
                       : c.masking == Masking::boolean ? " boolean"
                                                       : " additive");
  c.op = [causal = c.causal, scale = c.scale, method = c.method](std::span<const Tensor> in) {
    return attention(
        in[0], in[1], in[2],
        {.scale = scale, .causal = causal, .mask = in.size() > 3 ? in[3] : Tensor{}, .method = method});
  };
  return c;
}

Values attention_by_loops(const AttentionCase& c) {
  const Index nq = count(c.q_grid), nk = count(c.k_grid);
  const Values &q = c.operands[0].values, &k = c.operands[1].values;
  return attend_by_loops(kBatch, nq, nk, kHeads, kValueDepth, c.operands[2].values,
                         [&](Index b, Index h, Index i, Index j) -> double {
                           if (c.causal && j > i) return -INFINITY;
                           double s = c.scale.value_or(1 / std::sqrt(static_cast<double>(kDepth))) *
                                      inner(q, at(nq, kHeads, kDepth, b, i, h, 0), k,
                                            at(nk, kHeads, kDepth, b, j, h, 0), kDepth);
                           if (c.masking == Masking::none) return s;
                           const auto& mask = c.operands[3];
                           const Index row =
                               (mask.shape[0] > 1 ? b : 0) * mask.shape[1] + (mask.shape[1] > 1 ? h : 0);
                           const double m = mask.values[static_cast<std::size_t>((row * nq + i) * nk + j)];
                           if (c.masking == Masking::additive) return s + m;
                           return m != 0 ? s : -INFINITY;
                         });
}

TEST(Attention, AgreesWithLoopsAndDifferences) {
  Random random(21);
  for (int seed = 0; seed < 12; ++seed) {
    AttentionCase c = attention_case(random, seed);
    const testing::Outcome outcome = testing::run_case(c, DType::f64);
    testing::expect_close(outcome.outputs[0], attention_by_loops(c), 1e-12, 1e-12, c.text);
    testing::expect_finite_differences(c, random, outcome);
  }
}

TEST(Attention, SameUnderAllLayouts) {
  Random random(22);
  for (int seed = 0; seed < 16; ++seed) {
    AttentionCase c = attention_case(random, seed);
    const testing::Outcome want = testing::run_case(c, DType::f64);
    testing::expect_same_under_layouts(c, random, want, DType::f64, 1e-11);
    testing::expect_same_under_layouts(c, random, want, DType::f32, 5e-6);
  }
}

/// More tokens than a tile holds, large scores, and a ring over all ranks.
TEST(Attention, ManyTilesAndLargeScores) {
  Random random(23);
  const Shape q{1, 300, 2, 16}, k{1, 1100, 2, 16};
  for (const bool causal : {false, true}) {
    OperatorCase c;
    c.text = "many tiles";
    c.add(random, "q", q, {1});
    c.add(random, "k", k, {1});
    c.add(random, "v", k, {1});
    for (double& x : c.operands[0].values) x *= 20;
    c.op = [=](std::span<const Tensor> in) {
      return attention(in[0], in[1], in[2], {.causal = causal, .method = AttentionMethod::ring});
    };
    const testing::Outcome want = testing::run_case(c, DType::f64);
    testing::expect_same_under_layouts(c, random, want, DType::f32, 2e-5);
  }
}

TEST(Attention, BrainFloat) {
  Random random(24);
  const Shape q{1, 40, 2, 16};
  OperatorCase c;
  c.text = "bf16";
  for (const char* name : {"q", "k", "v"}) c.add(random, name, q, {1});
  c.op = [](std::span<const Tensor> in) { return attention(in[0], in[1], in[2]); };
  const testing::Outcome want = testing::run_case(c, DType::f64);
  testing::expect_same_under_layouts(c, random, want, DType::bf16, 3e-2);
}

TEST(Attention, NeedsNoCollective) {
  Random random(25);
  const Shape shape{1, 12, 7, 2, 4};
  for (const Mesh& mesh : testing::meshes(2)) {
    const Layout layout = testing::random_layout(random, mesh, shape, {1, 2}, Cuts::uneven);
    const Tensor x = Tensor::zeros(layout);
    for (const AttentionMethod method : {AttentionMethod::ring, AttentionMethod::heads}) {
      attention(x, x, x, {.method = method});  // makes the group of the ring
      CommStats::global().reset();
      attention(x, x, x, {.method = method});
      EXPECT_EQ(CommStats::global().collective_calls(), 0u) << CommStats::global().report();
    }
  }
}

TEST(Attention, SpeaksOfWhatDoesNotFit) {
  const Tensor q = Tensor::zeros(Shape{1, 5, 2, 4});
  EXPECT_THROW(attention(q, Tensor::zeros(Shape{1, 5, 2, 3}), q), Error);
  EXPECT_THROW(attention(q, q, Tensor::zeros(Shape{1, 6, 2, 4})), Error);
  EXPECT_THROW(attention(q, q, q, {.mask = Tensor::zeros(Shape{5, 5})}), Error);
}

TEST(Exponential, IsAccurate) {
  double worst = 0;
  for (float x = -86.9f; x < 10.0f; x += 0.00731f) {
    const double want = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(fast_exp(x)) - want) / want);
  }
  EXPECT_LT(worst, 2.5e-7);
  EXPECT_EQ(fast_exp(-INFINITY), 0.0f);
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
}

struct NeighborhoodCase : OperatorCase {
  Shape grid;
  NeighborhoodOptions options;
};

NeighborhoodCase neighborhood_case(Random& random, int axes) {
  NeighborhoodCase c;
  c.options.kernel_size = {};
  c.options.dilation = {};
  for (int a = 0; a < axes; ++a) {
    const Index kernel = 1 + 2 * pick(random, 0, axes == 3 ? 1 : 2), dilation = pick(random, 0, 3) ? 1 : 2;
    c.options.kernel_size.push_back(kernel);
    c.options.dilation.push_back(dilation);
    c.grid.push_back(kernel * dilation + pick(random, 0, axes == 3 ? 2 : 6));
  }
  const Shape shape = operand_shape(c.grid, kDepth), values = operand_shape(c.grid, kValueDepth);
  c.add(random, "q", shape, all_dims(shape));
  c.add(random, "k", shape, all_dims(shape));
  c.add(random, "v", values, all_dims(values));
  c.text = fmt::format("neighbourhood {} kernel {} dilation {}", to_string(c.grid),
                       to_string(c.options.kernel_size), to_string(c.options.dilation));
  c.op = [options = c.options](std::span<const Tensor> in) {
    return neighborhood_attention(in[0], in[1], in[2], options);
  };
  return c;
}

/// Whether point j is one of the `kernel` points nearest to i of i's residue class, ties and edges resolved
/// by sliding.
bool sees(Index n, Index kernel, Index dilation, Index i, Index j) {
  if (i % dilation != j % dilation) return false;
  const Index members = (n - i % dilation + dilation - 1) / dilation;
  const Index start = std::min(std::max<Index>(i / dilation - kernel / 2, 0), members - kernel);
  return j / dilation >= start && j / dilation < start + kernel;
}

Values neighborhood_by_loops(const NeighborhoodCase& c) {
  const Index n = count(c.grid);
  const Values &q = c.operands[0].values, &k = c.operands[1].values;
  return attend_by_loops(kBatch, n, n, kHeads, kValueDepth, c.operands[2].values,
                         [&](Index b, Index h, Index i, Index j) -> double {
                           Index ri = i, rj = j;
                           for (int a = c.grid.size() - 1; a >= 0; --a) {
                             if (!sees(c.grid[a], c.options.kernel_size[a], c.options.dilation[a],
                                       ri % c.grid[a], rj % c.grid[a])) {
                               return -INFINITY;
                             }
                             ri /= c.grid[a];
                             rj /= c.grid[a];
                           }
                           return inner(q, at(n, kHeads, kDepth, b, i, h, 0), k,
                                        at(n, kHeads, kDepth, b, j, h, 0), kDepth) /
                                  std::sqrt(static_cast<double>(kDepth));
                         });
}

TEST(NeighborhoodAttention, AgreesWithLoopsAndDifferences) {
  Random random(31);
  for (int i = 0; i < 9; ++i) {
    NeighborhoodCase c = neighborhood_case(random, 1 + i % 3);
    const testing::Outcome outcome = testing::run_case(c, DType::f64);
    testing::expect_close(outcome.outputs[0], neighborhood_by_loops(c), 1e-12, 1e-12, c.text);
    testing::expect_finite_differences(c, random, outcome);
  }
}

TEST(NeighborhoodAttention, SameUnderAllLayouts) {
  Random random(32);
  for (int i = 0; i < 9; ++i) {
    NeighborhoodCase c = neighborhood_case(random, 1 + i % 3);
    const testing::Outcome want = testing::run_case(c, DType::f64);
    testing::expect_same_under_layouts(c, random, want, DType::f64, 1e-11);
    testing::expect_same_under_layouts(c, random, want, DType::f32, 5e-6);
    testing::expect_same_under_layouts(c, random, want, DType::bf16, 3e-2);
  }
}

TEST(NeighborhoodAttention, SpeaksOfWhatDoesNotFit) {
  const Tensor q = Tensor::zeros(Shape{1, 5, 2, 4});
  EXPECT_THROW(neighborhood_attention(q, q, q, {.kernel_size = {4}}), Error);
  EXPECT_THROW(neighborhood_attention(q, q, q, {.kernel_size = {7}}), Error);
  EXPECT_THROW(neighborhood_attention(q, q, q, {.kernel_size = {3, 3}}), Error);
  EXPECT_THROW(neighborhood_attention(q, q, q, {.kernel_size = {3}, .dilation = {0}}), Error);
}

}  // namespace
}  // namespace tessera
