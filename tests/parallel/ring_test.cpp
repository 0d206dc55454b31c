#include "parallel/ring.hpp"

#include <gtest/gtest.h>

#include "tests/parallel/device_vector.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::DeviceVector;
using testing::world;

/// Block of rank r: `elements[r]` numbers that start at 1000 r.
std::vector<float> block_of(int rank, const std::vector<Index>& elements) {
  std::vector<float> block;
  for (Index i = 0; i < elements[static_cast<std::size_t>(rank)]; ++i)
    block.push_back(static_cast<float>(1000 * rank + i));
  return block;
}

std::vector<std::vector<Index>> cases() {
  const int p = world()->size();
  std::vector<std::vector<Index>> all(4);
  for (int r = 0; r < p; ++r) {
    all[0].push_back(5);
    all[1].push_back(3 * r + 1);
    all[2].push_back(r == 0 ? 0 : 20000 * r);
    all[3].push_back(0);
  }
  return all;
}

TEST(Ring, EveryBlockComesByOnceAndAccumulatorsReturn) {
  const int p = world()->size();
  const int me = world()->rank();
  for (const std::vector<Index>& elements : cases()) {
    RingRotation ring(world(), elements, DType::f32);
    for (int round = 0; round < 2; ++round) {
      RingAccumulator sums(world(), elements, DType::f32);
      ring.start(DeviceVector<float>(block_of(me, elements)).data());
      for (int s = 0; s < p; ++s) {
        ring.prefetch();
        const int owner = ((me - s) % p + p) % p;
        ASSERT_EQ(ring.owner(), owner);
        ASSERT_EQ(sums.owner(), owner);
        const std::vector<float> expected = block_of(owner, elements);
        const auto block = DeviceVector<float>::read(ring.current(), expected.size());
        EXPECT_EQ(block, expected);
        sums.progress();
        if (s > 0) sums.arrive();
        auto sum = DeviceVector<float>::read(sums.current(), expected.size());
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(me + 1) + block[i];
        copy_bytes(sums.current(), MemorySpace::device, sum.data(), MemorySpace::host,
                   sum.size() * sizeof(float));
        ring.progress();
        ring.advance();
        sums.leave();
      }
      sums.arrive();
      EXPECT_EQ(sums.owner(), me);
      std::vector<float> expected = block_of(me, elements);
      for (float& v : expected) v = static_cast<float>(p) * v + static_cast<float>(p * (p + 1) / 2);
      EXPECT_EQ(DeviceVector<float>::read(sums.current(), expected.size()), expected);
    }
  }
}

TEST(Ring, TwoRingsTurnTogether) {
  const int p = world()->size();
  const int me = world()->rank();
  std::vector<Index> short_blocks(static_cast<std::size_t>(p), 2);
  std::vector<Index> long_blocks(static_cast<std::size_t>(p), 7);
  RingRotation keys(world(), short_blocks, DType::f32);
  RingRotation values(world(), long_blocks, DType::f32);
  keys.start(DeviceVector<float>(block_of(me, short_blocks)).data());
  values.start(DeviceVector<float>(block_of(me, long_blocks)).data());
  for (int s = 0; s < p; ++s) {
    keys.prefetch();
    values.prefetch();
    EXPECT_EQ(DeviceVector<float>::read(keys.current(), 2), block_of(keys.owner(), short_blocks));
    EXPECT_EQ(DeviceVector<float>::read(values.current(), 7), block_of(values.owner(), long_blocks));
    keys.advance();
    values.advance();
  }
}

TEST(Ring, NeedsOneBlockPerRank) {
  EXPECT_THROW(
      RingRotation(world(), std::vector<Index>(static_cast<std::size_t>(world()->size() + 1), 1), DType::f32),
      Error);
}

}  // namespace
}  // namespace tessera
