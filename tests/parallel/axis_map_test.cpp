#include "parallel/axis_map.hpp"

#include <map>

#include <gtest/gtest.h>

namespace tessera {
namespace {

/// Source of every destination index, after checking that none is filled twice.
std::map<Index, Index> expand(const AxisMap& map) {
  std::map<Index, Index> sources;
  for (const AxisSegment& s : map.segments) {
    for (Index k = 0; k < s.count; ++k) {
      EXPECT_TRUE(map.range.contains(s.lo + k));
      EXPECT_TRUE(sources.emplace(s.lo + k, s.from + k * s.step).second)
          << "index " << s.lo + k << " filled twice";
    }
  }
  return sources;
}

/// The definition of each boundary, one index at a time; -1 where nothing is moved.
Index source_of(Index i, Index n, Boundary boundary) {
  switch (boundary) {
    case Boundary::zero:
      return i >= 0 && i < n ? i : -1;
    case Boundary::periodic:
      return ((i % n) + n) % n;
    case Boundary::reflect:
      return i < 0 ? -i : (i < n ? i : 2 * (n - 1) - i);
    default:
      return std::clamp<Index>(i, 0, n - 1);
  }
}

TEST(AxisMap, EveryBoundaryFollowsItsDefinition) {
  for (const Boundary boundary :
       {Boundary::zero, Boundary::periodic, Boundary::reflect, Boundary::replicate}) {
    for (Index n = 1; n <= 5; ++n) {
      const Index over = boundary == Boundary::reflect ? n - 1 : 3 * n + 1;
      for (Index lo = -over; lo <= n + over; ++lo) {
        for (Index hi = lo; hi <= n + over; ++hi) {
          const AxisMap map = map_with_boundary({lo, hi}, n, boundary);
          EXPECT_EQ(map.range, (Range{lo, hi}));
          const std::map<Index, Index> sources = expand(map);
          for (Index i = lo; i < hi; ++i) {
            const Index expected = source_of(i, n, boundary);
            if (expected < 0) {
              EXPECT_FALSE(sources.contains(i));
            } else {
              ASSERT_TRUE(sources.contains(i)) << i << " of " << n;
              EXPECT_EQ(sources.at(i), expected) << i << " of " << n;
            }
          }
        }
      }
    }
  }
}

TEST(AxisMap, ReflectRefusesMoreThanTheAxisHas) {
  EXPECT_NO_THROW(map_with_boundary({-3, 7}, 4, Boundary::reflect));
  EXPECT_THROW(map_with_boundary({-4, 4}, 4, Boundary::reflect), Error);
  EXPECT_THROW(map_with_boundary({0, 8}, 4, Boundary::reflect), Error);
}

TEST(AxisMap, AnAxisWithoutIndicesGivesNothing) {
  EXPECT_TRUE(map_with_boundary({-2, 3}, 0, Boundary::zero).segments.empty());
  EXPECT_TRUE(map_with_boundary({2, 2}, 0, Boundary::periodic).segments.empty());
  EXPECT_THROW(map_with_boundary({0, 1}, 0, Boundary::periodic), Error);
  EXPECT_THROW(map_with_boundary({0, 1}, 0, Boundary::replicate), Error);
}

TEST(AxisMap, AffineAndIdentity) {
  const std::map<Index, Index> flipped = expand(map_affine({2, 5}, 9, -1));
  EXPECT_EQ(flipped, (std::map<Index, Index>{{2, 7}, {3, 6}, {4, 5}}));
  const std::map<Index, Index> strided = expand(map_affine({1, 3}, 4, 3));
  EXPECT_EQ(strided, (std::map<Index, Index>{{1, 7}, {2, 10}}));
  EXPECT_EQ(expand(map_identity({3, 5})), (std::map<Index, Index>{{3, 3}, {4, 4}}));
  EXPECT_TRUE(map_identity({3, 3}).segments.empty());
}

}  // namespace
}  // namespace tessera
