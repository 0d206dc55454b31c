#include "parallel/partition.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Box, IntersectionShapeAndVolume) {
  const Box a{{0, 4}, {2, 7}};
  const Box b{{3, 9}, {0, 3}};
  EXPECT_EQ(intersect(a, b), (Box{{3, 4}, {2, 3}}));
  EXPECT_EQ(a.volume(), 20);
  EXPECT_EQ(to_string(a), "[0:4, 2:7]");
  EXPECT_TRUE(intersect(a, Box{{4, 9}, {0, 3}}).is_empty());
  EXPECT_EQ((Box{{5, 3}, {0, 2}}).volume(), 0);
  EXPECT_EQ(Box::whole({3, 0, 2}).shape(), (Shape{3, 0, 2}));
  EXPECT_THROW(intersect(a, Box{{0, 1}}), Error);
}

TEST(Partition, EvenAndChunk) {
  EXPECT_EQ(to_string(Partition::even(7, 3)), "0:3:5:7");
  EXPECT_EQ(to_string(Partition::even(2, 4)), "0:1:2:2:2");
  EXPECT_EQ(to_string(Partition::chunk(7, 3)), "0:3:6:7");
  EXPECT_EQ(to_string(Partition::chunk(5, 4)), "0:2:4:5:5");
  EXPECT_EQ(to_string(Partition::even(0, 2)), "0:0:0");
  EXPECT_THROW(Partition::even(3, 0), Error);
}

TEST(Partition, SizesAndWeights) {
  EXPECT_EQ(to_string(Partition::from_sizes(std::vector<Index>{2, 0, 3})), "0:2:2:5");
  EXPECT_EQ(to_string(Partition::from_weights(73, std::vector<double>{3, 2})), "0:44:73");
  EXPECT_EQ(to_string(Partition::from_weights(16, std::vector<double>{1, 0, 1}, 4)), "0:8:8:16");
  EXPECT_EQ(Partition::from_weights(10, std::vector<double>{1, 1, 1}, 4).extent(), 10);
  EXPECT_THROW(Partition::from_weights(5, std::vector<double>{0, 0}), Error);
  EXPECT_THROW(Partition::from_weights(5, std::vector<double>{1, -1}), Error);
}

TEST(Partition, RefusesBadCutPoints) {
  EXPECT_THROW(Partition({0}), Error);
  EXPECT_THROW(Partition({1, 2}), Error);
  EXPECT_THROW(Partition({0, 3, 2}), Error);
}

TEST(Partition, OwnerSkipsEmptyParts) {
  const Partition p({0, 2, 2, 5});
  for (Index i = 0; i < 5; ++i) EXPECT_TRUE(p.range(p.owner(i)).contains(i));
  EXPECT_EQ(p.owner(2), 2);
  EXPECT_THROW(p.owner(5), Error);
  EXPECT_THROW(p.owner(-1), Error);
}

TEST(Partition, WindowsMoveTheCutPoints) {
  EXPECT_EQ(to_string(Partition({0, 3, 8}).strided(2, 4)), "0:2:4");
  EXPECT_EQ(to_string(Partition({0, 7, 8}).strided(2, 3)), "0:3:3");
  EXPECT_EQ(to_string(Partition({0, 3, 8}).transposed(2, 17)), "0:6:17");
}

TEST(Partition, BalancedGivesSlowPartsLess) {
  const Partition even = Partition::even(30, 3);
  const std::vector<double> seconds{1, 2, 1};  // speeds 10, 5, 10
  EXPECT_EQ(Partition::balanced(even, seconds), Partition({0, 12, 18, 30}));
  EXPECT_EQ(Partition::balanced(even, seconds, 4), Partition({0, 12, 20, 30}));
  // A part without cells has no speed of its own: the mean.
  const std::vector<double> idle{1, 0, 1};
  EXPECT_EQ(Partition::balanced(Partition({0, 15, 15, 30}), idle), Partition::even(30, 3));
  const std::vector<double> nothing{0, 0, 0};
  EXPECT_EQ(Partition::balanced(even, nothing), even);
  const std::vector<double> two{1, 1};
  EXPECT_THROW(Partition::balanced(even, two), Error);
}

}  // namespace
}  // namespace tessera
