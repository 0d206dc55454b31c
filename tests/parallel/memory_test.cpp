#include "parallel/memory.hpp"

#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "parallel/communicator.hpp"

namespace tessera {
namespace {

// Destroyed after main(), hence after the end of MPI and Kokkos.
MemoryBlock g_survivor;

TEST(Memory, BlocksAreAlignedAndCachedForReuse) {
  const void* first = nullptr;
  {
    const MemoryBlock block(MemorySpace::device, 1000);
    first = block.data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    EXPECT_EQ(block.bytes(), 1000U);
  }
  const MemoryBlock again(MemorySpace::device, 990);
  EXPECT_EQ(again.data(), first);
  const MemoryBlock large(MemorySpace::device, std::size_t{5} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % 64, 0U);
  EXPECT_EQ(MemoryBlock(MemorySpace::host, 0).data(), nullptr);
  g_survivor = large;
}

TEST(Memory, HighWaterMarks) {
  const std::size_t before = memory_use(MemorySpace::device).current;
  reset_memory_peak(MemorySpace::device);
  {
    const MemoryBlock a(MemorySpace::device, 10000);
    const MemoryBlock copy = a;  // shares the block
    const MemoryBlock b(MemorySpace::device, 300);
    EXPECT_EQ(memory_use(MemorySpace::device).current, before + 10300);
  }
  const MemoryBlock c(MemorySpace::device, 500);
  const MemoryUse use = memory_use(MemorySpace::device);
  EXPECT_EQ(use.current, before + 500);
  EXPECT_EQ(use.peak, before + 10300);
  EXPECT_EQ(use.largest_block, 10000U);
  EXPECT_GE(use.reserved, use.current);
  reset_memory_peak(MemorySpace::device);
  EXPECT_EQ(memory_use(MemorySpace::device).peak, before + 500);
  EXPECT_EQ(memory_use(MemorySpace::device).largest_block, 0U);
}

TEST(Memory, ReleaseGivesCachedBlocksBack) {
  { const MemoryBlock block(MemorySpace::host, std::size_t{64} << 20); }
  const std::size_t cached = memory_use(MemorySpace::host).reserved;
  EXPECT_GE(cached, std::size_t{64} << 20);
  release_memory_cache();
  EXPECT_LE(memory_use(MemorySpace::host).reserved, cached - (std::size_t{64} << 20));
}

TEST(Memory, OutOfMemoryIsAnError) {
  EXPECT_THROW(MemoryBlock(MemorySpace::host, std::size_t{1} << 60), Error);
}

TEST(Memory, CopiesBetweenSpaces) {
  std::vector<int> values{1, 2, 3, 4};
  const std::size_t bytes = values.size() * sizeof(int);
  const MemoryBlock device(MemorySpace::device, bytes);
  const MemoryBlock other(MemorySpace::device, bytes);
  copy_bytes(device.data(), MemorySpace::device, values.data(), MemorySpace::host, bytes);
  copy_bytes(other.data(), MemorySpace::device, device.data(), MemorySpace::device, bytes);
  std::vector<int> back(4, 0);
  copy_bytes(back.data(), MemorySpace::host, other.data(), MemorySpace::device, bytes);
  EXPECT_EQ(back, values);
  zero_bytes(other.data(), MemorySpace::device, bytes);
  copy_bytes(back.data(), MemorySpace::host, other.data(), MemorySpace::device, bytes);
  EXPECT_EQ(back, (std::vector<int>{0, 0, 0, 0}));
}

TEST(Memory, ThreadsShareTheCache) {
  const std::size_t before = memory_use(MemorySpace::host).current;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (std::size_t i = 1; i < 300; ++i) {
        const MemoryBlock block(MemorySpace::host, 64 * i);
        static_cast<char*>(block.data())[64 * i - 1] = static_cast<char>(t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_use(MemorySpace::host).current, before);
}

TEST(SelfCommunicator, CollectivesAreCopiesAndMessagesAreQueued) {
  const CommPtr self = self_communicator();
  EXPECT_EQ(self->size(), 1);
  const std::vector<float> from{1, 2};
  std::vector<float> to(2);
  const std::vector<Index> counts{2};
  self->all_gather(from.data(), to.data(), counts, DType::f32);
  EXPECT_EQ(to, from);
  EXPECT_EQ(self->all_reduce_value(3.0, ReduceOp::sum), 3.0);
  float received = 0;
  Request request = self->start_receive(&received, 1, DType::f32, 0, 5);
  EXPECT_FALSE(request.test());
  self->send(&from[1], 1, DType::f32, 0, 5);
  request.wait();
  EXPECT_EQ(received, 2);
  EXPECT_THROW(self->receive(&received, 1, DType::f32, 0, 6), Error);
  EXPECT_NE(self->native_handle(), nullptr);
}

}  // namespace
}  // namespace tessera
