// Pooling and interpolation: against their definitions, finite differences, and one process on every layout.
#include <cmath>

#include <gtest/gtest.h>

#include "solver/ops/interpolate/interpolate.hpp"
#include "solver/ops/pool/pool.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/support/operator_case.hpp"

namespace tessera {
namespace {

using testing::all_dims;
using testing::OperatorCase;
using testing::pick;
using testing::Random;
using Values = std::vector<double>;

/// (batch, *grid, channels) with 1 to 3 grid axes.
Shape random_shape(Random& random, int axes) {
  Shape shape{pick(random, 1, 2)};
  for (int a = 0; a < axes; ++a) shape.push_back(pick(random, 3, axes == 1 ? 17 : 8));
  shape.push_back(pick(random, 1, 3));
  return shape;
}

PoolOptions random_pool(Random& random, int axes, bool is_max) {
  PoolOptions options;
  for (int a = 0; a < axes; ++a) {
    options.kernel.push_back(pick(random, 1, 3));
    options.stride.push_back(pick(random, 1, 3));
    options.padding.push_back(pick(random, 0, options.kernel[a] / 2));
    options.dilation.push_back(is_max && options.kernel[a] == 2 ? 2 : 1);
  }
  options.ceil_mode = pick(random, 0, 1);
  options.count_include_pad = pick(random, 0, 1);
  return options;
}

void check(OperatorCase& c, Random& random) {
  const testing::Outcome want = testing::run_case(c, DType::f64);
  testing::expect_finite_differences(c, random, want);
  testing::expect_same_under_layouts(c, random, want, DType::f64, 1e-12);
  testing::expect_same_under_layouts(c, random, want, DType::f32, 2e-5);
}

TEST(Pool, EveryLayoutEqualsOneProcess) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed + 50);
    const int axes = static_cast<int>(seed % 3) + 1;
    const bool is_max = seed % 2;
    const PoolOptions options = random_pool(random, axes, is_max);
    OperatorCase c;
    const Shape shape = random_shape(random, axes);
    c.text = (is_max ? "max_pool " : "avg_pool ") + to_string(shape) + " kernel " +
             to_string(options.kernel) + " stride " + to_string(options.stride) + " padding " +
             to_string(options.padding) + (options.ceil_mode ? " ceiled" : "");
    c.add(random, "x", shape, all_dims(shape));
    c.op = [=](std::span<const Tensor> in) {
      return is_max ? max_pool(in[0], options).values : avg_pool(in[0], options);
    };
    check(c, random);
  }
}

/// Number of windows as torch counts them.
Index outputs_of(Index n, Index kernel, Index stride, Index padding, bool ceiled) {
  const Index room = n + 2 * padding - kernel;
  Index outputs = (room + (ceiled ? stride - 1 : 0)) / stride + 1;
  if (ceiled && (outputs - 1) * stride >= n + padding) --outputs;
  return outputs;
}

TEST(Pool, EqualsTheDefinition) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Index n = pick(random, 4, 12), kernel = pick(random, 1, 4), stride = pick(random, 1, 4),
                padding = pick(random, 0, kernel / 2);
    const bool ceiled = pick(random, 0, 1), count_pad = pick(random, 0, 1);
    const Index outputs = outputs_of(n, kernel, stride, padding, ceiled);
    if ((outputs - 1) * stride - padding >= n) continue;  // the last window holds padding alone
    const Values x = testing::random_values(random, n);
    Values mean, top, where;
    for (Index o = 0; o < outputs; ++o) {
      const Index start = o * stride - padding, end = std::min(start + kernel, n + padding);
      double sum = 0, most = -INFINITY;
      Index at = -1, inside = 0;
      for (Index i = std::max<Index>(start, 0); i < std::min(end, n); ++i, ++inside) {
        const double value = x[static_cast<std::size_t>(i)];
        sum += value;
        if (value > most) most = value, at = i;
      }
      mean.push_back(sum / static_cast<double>(count_pad ? end - start : inside));
      top.push_back(most);
      where.push_back(static_cast<double>(at));
    }
    const PoolOptions options{{kernel}, {stride}, {padding}, {}, ceiled, count_pad};
    const std::string what = "n " + std::to_string(n) + " kernel " + std::to_string(kernel) + " stride " +
                             std::to_string(stride) + " padding " + std::to_string(padding);
    const Shape shape{1, n, 1};
    for (const Mesh& mesh : testing::meshes()) {
      const Layout layout = testing::random_layout(random, mesh, shape, {1}, testing::Cuts::empty);
      const Tensor t = testing::tensor_of(x, shape, DType::f64, layout);
      testing::expect_close(testing::values_of(avg_pool(t, options)), mean, 1e-14, 0, what);
      const MaxPooled pooled = max_pool(t, options);
      testing::expect_close(testing::values_of(pooled.values), top, 0, 0, what);
      testing::expect_close(testing::values_of(pooled.indices), where, 0, 0, what + ", indices");
    }
  }
}

TEST(Pool, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros(Shape{1, 5, 5, 2});
  EXPECT_THROW(avg_pool(x, {.kernel = {2}, .padding = {2}}), Error);
  EXPECT_THROW(avg_pool(x, {.kernel = {2}, .dilation = {2}}), Error);
  EXPECT_THROW(max_pool(x, {.kernel = {2, 2, 2}}), Error);
  EXPECT_THROW(max_pool(x, {.kernel = {9}}), Error);
  EXPECT_THROW(max_pool(x, {.kernel = {0}}), Error);
}

TEST(Interpolate, NearestTakesTheInputUnderTheLeftEndAndExactUnderTheMiddle) {
  // torch.nn.functional.interpolate of 0 .. 4 to 3 and to 7 elements.
  const Tensor x = testing::tensor_of({0, 1, 2, 3, 4}, Shape{1, 5, 1});
  const auto values = [&](Index size, InterpolateMode mode) {
    return testing::values_of(interpolate(x, {size}, mode));
  };
  using Values = std::vector<double>;
  EXPECT_EQ(values(3, InterpolateMode::nearest), (Values{0, 1, 3}));
  EXPECT_EQ(values(3, InterpolateMode::nearest_exact), (Values{0, 2, 4}));
  EXPECT_EQ(values(7, InterpolateMode::nearest), (Values{0, 0, 1, 2, 2, 3, 4}));
  EXPECT_EQ(values(7, InterpolateMode::nearest_exact), (Values{0, 1, 1, 2, 3, 3, 4}));
}

TEST(Interpolate, EveryLayoutEqualsOneProcess) {
  for (std::uint64_t seed = 0; seed < 36; ++seed) {
    Random random(seed + 90);
    const int axes = static_cast<int>(seed % 3) + 1;
    const auto mode = static_cast<InterpolateMode>(seed % 5);
    const bool smooth = mode == InterpolateMode::linear || mode == InterpolateMode::cubic;
    const bool aligned = smooth && seed % 2 == 0;
    OperatorCase c;
    const Shape shape = random_shape(random, axes);
    Shape size;
    for (int a = 0; a < axes; ++a) size.push_back(pick(random, 1, 2 * shape[a + 1] + 1));
    c.text = "interpolate " + to_string(shape) + " to " + to_string(size) + " mode " +
             std::to_string(seed % 5) + (aligned ? " aligned" : "");
    c.add(random, "x", shape, all_dims(shape));
    c.op = [=](std::span<const Tensor> in) { return interpolate(in[0], size, mode, aligned); };
    check(c, random);
  }
}

TEST(Interpolate, AreaAveragesWhatAnOutputCovers) {
  const Values x{1, 2, 4, 8, 16, 32, 64};
  const Tensor t = testing::tensor_of(x, Shape{1, 7, 1});
  // Outputs 0, 1, 2 of 3 cover inputs [0, 3), [2, 5), [4, 7).
  testing::expect_close(testing::values_of(interpolate(t, {3}, InterpolateMode::area)),
                        {7.0 / 3, 28.0 / 3, 112.0 / 3}, 1e-14, 0, "area");
}

TEST(Interpolate, CutPointsKeepTheirPlace) {
  const Mesh& mesh = testing::meshes(1).front();
  const int ranks = mesh.size();
  const Layout layout = Layout::even(mesh, {Shard(1)}, Shape{1, 5 * ranks, 1});
  const Tensor y = interpolate(Tensor::zeros(layout), {10 * ranks}, InterpolateMode::linear);
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(y.layout().range(r, 1), (Range{10 * r, 10 * r + 10}));
}

TEST(Interpolate, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros(Shape{1, 5, 5, 2});
  EXPECT_THROW(interpolate(x, {4}, InterpolateMode::linear), Error);
  EXPECT_THROW(interpolate(x, {4, 0}, InterpolateMode::linear), Error);
  EXPECT_THROW(interpolate(x, {4, 4}, InterpolateMode::area, true), Error);
}

}  // namespace
}  // namespace tessera
