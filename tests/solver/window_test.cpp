// What windows read and move: slabs against their definition, adjoints, and the messages of convolutions.
#include <cmath>

#include <gtest/gtest.h>

#include "parallel/comm_stats.hpp"
#include "solver/ops/conv/conv.hpp"
#include "solver/ops/window/windowed_input.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::Cuts;
using testing::pick;
using testing::Random;
using testing::tensor_of;
using Values = std::vector<double>;

/// The value that index i of an axis under a boundary reads; false beyond a zero boundary.
bool wrap(Index& i, Index n, Boundary boundary) {
  switch (boundary) {
    case Boundary::periodic:
      i = ((i % n) + n) % n;
      return true;
    case Boundary::replicate:
      i = std::clamp<Index>(i, 0, n - 1);
      return true;
    case Boundary::reflect:
      i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
      return true;
    default:
      return i >= 0 && i < n;
  }
}

Window random_window(Random& random, const Shape& x) {
  Window window;
  for (int a = 0; a + 2 < x.size(); ++a) {
    WindowAxis w;
    do {
      const auto boundary = static_cast<Boundary>(pick(random, 0, 3));
      const Index most = boundary == Boundary::reflect ? x[a + 1] - 1 : 4;
      w = {pick(random, 1, 4),
           pick(random, 1, 3),
           pick(random, 1, 2),
           pick(random, 0, most),
           pick(random, 0, most),
           boundary,
           false};
    } while (x[a + 1] + w.pad_lo + w.pad_hi - w.reach() - 1 < 0);
    window.push_back(w);
  }
  return window;
}

/// The slab of (1, rows, columns, 1), filled, by looking every element up.
Values slab_of(const WindowedInput& input, const Window& window, const Shape& x, const Values& values,
               double fill) {
  Values slab;
  const Range rows = input.slab_range(0), columns = input.slab_range(1);
  if (input.slab_shape()[0] == 0) return slab;
  for (Index r = rows.lo; r < rows.hi; ++r) {
    for (Index c = columns.lo; c < columns.hi; ++c) {
      Index i = r, j = c;
      const bool inside = wrap(i, x[1], window[0].boundary) && wrap(j, x[2], window[1].boundary);
      slab.push_back(inside ? values[static_cast<std::size_t>(i * x[2] + j)] : fill);
    }
  }
  return slab;
}

TEST(WindowedInput, SlabAndAdjointOnEveryLayout) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Shape shape{1, pick(random, 1, 12), pick(random, 1, 9), 1};
    const Window window = random_window(random, shape);
    const Values values = testing::random_values(random, count(shape));
    for (const Mesh& mesh : testing::meshes(2)) {
      const Layout layout = testing::random_layout(random, mesh, shape, {1, 2}, Cuts::uneven);
      const Tensor x = tensor_of(values, shape, DType::f64, layout);
      const WindowedInput input(x, window, 1, Edges::filled);
      const Tensor slab = input.gather(x, -7.0);
      const Values got = slab.to_host<double>();
      EXPECT_EQ(slab.shape(), input.slab_shape());
      EXPECT_EQ(got, slab_of(input, window, shape, values, -7.0)) << to_string(layout);
      for (int a = 0; a < 2 && count(slab.shape()) > 0; ++a) {
        EXPECT_EQ(input.local_pad_lo(a), 0);
        EXPECT_EQ(input.local_pad_hi(a), 0);
      }

      // <gather(x), g> = <x, scatter_add(g)>, summed over the ranks; the fill carries no gradient.
      Random own_random(seed);  // slabs differ in size between ranks, and `random` has to stay in step
      const Values g = testing::random_values(own_random, slab.local_count());
      const Values here = input.gather(x, 0.0).to_host<double>();
      const Tensor back = input.scatter_add(tensor_of(g, slab.shape()));
      EXPECT_TRUE(back.layout() == layout);
      const Values there = back.to_host<double>(), own = x.to_host<double>();
      double difference = 0;
      for (std::size_t i = 0; i < g.size(); ++i) difference += here[i] * g[i];
      for (std::size_t i = 0; i < own.size(); ++i) difference -= own[i] * there[i];
      EXPECT_NEAR(mesh.comm().all_reduce_value(difference, ReduceOp::sum), 0, 1e-12);
    }
  }
}

TEST(WindowedInput, AlignedPatchesNeitherMoveNorCopy) {
  const Mesh& mesh = testing::meshes().front();
  const Shape shape{1, 4 * mesh.size() + 3, 8, 2};
  std::vector<Index> sizes(static_cast<std::size_t>(mesh.size()), 4);
  sizes.back() += 3;  // rows that no patch reads
  const Layout layout(mesh, {Shard(1)}, shape, {Partition::from_sizes(sizes)});
  const WindowedInput input(shape, layout, {{4, 4}, {4, 4}}, 5);
  EXPECT_TRUE(input.is_local());
  EXPECT_TRUE(input.shares_input());
  const WindowedInput back(shape, layout,
                           {{2, 2, 1, 0, 0, Boundary::zero, true}, {2, 2, 1, 0, 0, Boundary::zero, true}}, 5);
  EXPECT_TRUE(back.shares_input());
}

TEST(WindowedInput, UnshardedZeroBoundaryIsLeftToTheKernel) {
  const Shape shape{1, 7, 8, 2};
  EXPECT_TRUE(WindowedInput(shape, {}, {{3, 1, 1, 1, 1}, {3, 2, 1, 1, 1}}, 2).shares_input());
  EXPECT_FALSE(
      WindowedInput(shape, {}, {{3, 1, 1, 1, 1, Boundary::periodic}, {3, 1, 1, 1, 1}}, 2).shares_input());
}

TEST(Conv, ForwardNeedsNoCollective) {
  for (const Mesh& mesh : testing::meshes()) {
    const Shape shape{1, 12, 9, 7, 2};
    Placements placements;
    for (int m = 0; m < mesh.axes(); ++m) placements.push_back(Shard(m + 1));
    const Tensor x = Tensor::zeros(Layout::even(mesh, placements, shape));
    const Tensor w = Tensor::zeros(Shape{3, 2, 3, 3, 3});
    CommStats& stats = CommStats::global();
    stats.reset();
    const Tensor y = conv(x, w, {}, {.padding_lo = {1}, .padding_hi = {1}});
    EXPECT_EQ(stats.collective_calls(), 0u);
    for (const auto& [key, counted] : stats.counts()) EXPECT_EQ(key.first, "conv") << key.second;
    const auto sent =
        mesh.comm().all_reduce_value(static_cast<Index>(stats.total("send").calls), ReduceOp::sum);
    EXPECT_EQ(sent > 0, mesh.size() > 1);
    for (int m = 0; m < mesh.axes(); ++m) EXPECT_TRUE(y.layout().partition(m) == x.layout().partition(m));
  }
}

TEST(Window, RefusesNonsense) {
  const auto outputs = [](WindowAxis axis, Index n) { return axis.outputs(n); };
  EXPECT_EQ(outputs({3, 2, 1, 1, 1}, 7), 4);
  EXPECT_EQ(outputs({3, 2, 1, 1, 0, Boundary::zero, true}, 4), 8);
  EXPECT_THROW(outputs({3}, 2), Error);
  EXPECT_THROW(outputs({0}, 2), Error);
  EXPECT_THROW(outputs({1, 0}, 2), Error);
  EXPECT_THROW(outputs({3, 1, 1, 1, 1, Boundary::periodic, true}, 4), Error);
}

}  // namespace
}  // namespace tessera
