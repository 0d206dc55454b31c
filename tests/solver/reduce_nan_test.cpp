#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "solver/ops/reduce/reduce.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

/// A NaN on any rank is the extreme of everything, whatever the layout.
TEST(Reduce, ExtremesKeepNotANumber) {
  const MeshAxis axis{"domain", -1};
  const Mesh mesh(testing::world(), {&axis, 1});
  for (Index at : {0, 3, 10}) {
    const Layout layout = Layout::even(mesh, {Shard(0)}, {11});
    std::vector<float> values(static_cast<std::size_t>(count(layout.local_shape())), 1.0f);
    const Range own = layout.local_box()[0];
    if (own.contains(at))
      values[static_cast<std::size_t>(at - own.lo)] = std::numeric_limits<float>::quiet_NaN();
    const Tensor x = Tensor::from_host(std::span<const float>(values), layout);
    EXPECT_TRUE(std::isnan(amax(x).item())) << at;
    EXPECT_TRUE(std::isnan(amin(x).item())) << at;
  }
}

}  // namespace
}  // namespace tessera
