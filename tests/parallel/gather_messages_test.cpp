#include "parallel/gather_messages.hpp"

#include <bit>

#include <gtest/gtest.h>

#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::world;

TEST(GatherMessages, RankOrderInFewMessages) {
  const int ranks = world()->size(), me = world()->rank();
  for (const Index count : {Index{0}, Index{1}, Index{7}}) {
    std::vector<double> mine, expected;
    for (Index i = 0; i < count; ++i) mine.push_back(100.0 * me + static_cast<double>(i));
    for (int r = 0; r < ranks; ++r) {
      for (Index i = 0; i < count; ++i) expected.push_back(100.0 * r + static_cast<double>(i));
    }
    std::vector<double> all(expected.size(), -1.0);
    CommStats::global().reset();
    gather_messages(*world(), mine.data(), all.data(), count, DType::f64);
    EXPECT_EQ(all, expected);
    const auto rounds =
        count == 0 ? 0U : static_cast<unsigned>(std::bit_width(static_cast<unsigned>(ranks - 1)));
    const CommCount sent = CommStats::global().total("send");
    EXPECT_EQ(sent.calls, rounds);
    EXPECT_EQ(sent.bytes, static_cast<std::uint64_t>((ranks - 1) * count * 8));
    EXPECT_EQ(CommStats::global().collective_calls(), 0U);
  }
}

}  // namespace
}  // namespace tessera
