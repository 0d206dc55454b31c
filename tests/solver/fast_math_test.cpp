#include "solver/ops/elementwise/fast_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace tessera {
namespace {

TEST(FastMath, ExpIsAccurate) {
  double worst = 0;
  for (double x = -86.9; x < 88; x += 1e-3) {
    const double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    worst = std::max(worst, std::abs(static_cast<double>(fast::exp(static_cast<float>(x))) - exact) / exact);
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(fast::exp(-100.0f), 0.0f);
  EXPECT_EQ(fast::exp(0.0f), 1.0f);
}

TEST(FastMath, ErfIsAccurate) {
  double worst = 0;
  for (double x = -6; x < 6; x += 1e-4) {
    const double exact = std::erf(static_cast<double>(static_cast<float>(x)));
    worst = std::max(worst, std::abs(static_cast<double>(fast::erf(static_cast<float>(x))) - exact));
  }
  EXPECT_LT(worst, 4e-7);
  EXPECT_EQ(fast::erf(0.0f), 0.0f);
}

TEST(FastMath, NotANumberStaysOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(fast::exp(nan)));
  EXPECT_TRUE(std::isnan(fast::erf(nan)));
}

}  // namespace
}  // namespace tessera
