#include "solver/tensor/random.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

std::array<std::uint32_t, 4> words(CounterRandom::Block b) {
  return {b.word[0], b.word[1], b.word[2], b.word[3]};
}
using Words = std::array<std::uint32_t, 4>;

// Known answers of the authors' own test file for philox4x32 with ten rounds.
TEST(CounterRandom, KnownAnswers) {
  EXPECT_EQ(words(CounterRandom::philox({{0, 0, 0, 0}}, 0, 0)),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t f = 0xffffffff;
  EXPECT_EQ(words(CounterRandom::philox({{f, f, f, f}}, f, f)),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(CounterRandom::philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
                                        0x299f31d0)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, MomentsOfUniformAndNormal) {
  const CounterRandom random(5, stream_of("weights"));
  const int n = 200000;
  double sum = 0, square = 0, normal = 0, normal2 = 0, normal4 = 0, lag = 0;
  for (int i = 0; i < n; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const double u = random.uniform(index), z = random.normal(index);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    square += u * u;
    lag += (u - 0.5) * (random.uniform(index + 1) - 0.5);
    normal += z;
    normal2 += z * z;
    normal4 += z * z * z * z;
  }
  // Five standard deviations of each estimate.
  const double five = 5 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(sum / n, 0.5, five * std::sqrt(1.0 / 12));
  EXPECT_NEAR(square / n, 1.0 / 3, five * std::sqrt(4.0 / 45));
  EXPECT_NEAR(lag / n, 0, five / 12);
  EXPECT_NEAR(normal / n, 0, five);
  EXPECT_NEAR(normal2 / n, 1, five * std::sqrt(2.0));
  EXPECT_NEAR(normal4 / n, 3, five * std::sqrt(96.0));
}

TEST(CounterRandom, SeedsAndStreamsDiffer) {
  EXPECT_NE(CounterRandom(1, 0).bits(0), CounterRandom(2, 0).bits(0));
  EXPECT_NE(CounterRandom(1, 0).bits(0), CounterRandom(1, 1).bits(0));
  EXPECT_NE(CounterRandom(1, 0).bits(0), CounterRandom(std::uint64_t{1} << 40 | 1, 0).bits(0));
  EXPECT_NE(CounterRandom(1, 0).bits(0), CounterRandom(1, std::uint64_t{1} << 40).bits(0));
  EXPECT_NE(CounterRandom(1, 0).bits(0), CounterRandom(1, 0).bits(std::uint64_t{1} << 40));
  EXPECT_NE(stream_of("a"), stream_of("b"));
}

TEST(CounterRandom, BelowStaysBelowAndIsEven) {
  const CounterRandom random(9);
  std::array<int, 7> seen{};
  for (std::uint64_t i = 0; i < 70000; ++i) ++seen.at(random.below(i, 7));
  for (int count : seen) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(random.below(3, 1), 0U);
  EXPECT_LT(random.below(3, std::uint64_t{1} << 63), std::uint64_t{1} << 63);
}

TEST(CounterRandom, PermutationHoldsEveryIndexOnce) {
  std::vector<Index> order = random_permutation(1000, CounterRandom(3, 1));
  EXPECT_EQ(order, random_permutation(1000, CounterRandom(3, 1)));
  EXPECT_NE(order, random_permutation(1000, CounterRandom(3, 2)));
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (Index i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(random_permutation(0, CounterRandom(3)).empty());
}

TEST(CounterRandom, FillDoesNotDependOnTheLayout) {
  const Shape shape{3, 7, 5};
  const MeshAxis axis{"domain", testing::world()->size()};
  const Mesh mesh(testing::world(), {&axis, 1});
  const CounterRandom random(17, 2);
  for (const bool normal : {false, true}) {
    const auto fill = [&](const Tensor& t) {
      normal ? fill_normal(t, random, 1, 2) : fill_uniform(t, random, -1, 3);
    };
    const Tensor plain = Tensor::empty(shape, DType::f64);
    fill(plain);
    const std::vector<double> whole = plain.to_host<double>();
    EXPECT_EQ(whole[8], normal ? 1 + 2 * random.normal(8) : -1 + 4 * random.uniform(8));
    for (int dim = 0; dim < 3; ++dim) {
      const Tensor shard = Tensor::empty(Layout::even(mesh, {Shard(dim)}, shape), DType::f64);
      fill(shard);
      const std::vector<double> own = shard.to_host<double>();
      const Box& box = shard.layout().local_box();
      std::size_t at = 0;
      for (Index a = box[0].lo; a < box[0].hi; ++a) {
        for (Index b = box[1].lo; b < box[1].hi; ++b) {
          for (Index c = box[2].lo; c < box[2].hi; ++c) {
            ASSERT_EQ(own[at++], whole[static_cast<std::size_t>((a * 7 + b) * 5 + c)]);
          }
        }
      }
    }
  }
}

TEST(CounterRandom, FillRoundsToBfloat16) {
  const Tensor t = Tensor::empty(Shape{64}, DType::bf16);
  fill_uniform(t, CounterRandom(1), 0, 1);
  const std::vector<float> values = t.to_host<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], CounterRandom(1).uniform(i), 1.0 / 256);
}

}  // namespace
}  // namespace tessera
