#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include <Kokkos_Core.hpp>

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// Random numbers without state: number `i` of a stream is a function of (seed, stream, i) alone, so that
/// whoever owns the global index i draws the same number on any rank count and layout. Philox4x32-10 (Salmon,
/// Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11). Callable from kernels; copy it
/// into them by value.
class CounterRandom {
 public:
  struct Block {
    std::uint32_t word[4];
  };

  /// `stream` tells apart the uses of one seed: a parameter, an epoch, a trajectory.
  KOKKOS_INLINE_FUNCTION explicit CounterRandom(std::uint64_t seed = 0, std::uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  /// The bare generator: ten rounds over a counter of four words with a key of two.
  KOKKOS_INLINE_FUNCTION static Block philox(Block counter, std::uint32_t key0, std::uint32_t key1) {
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter.word[0];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter.word[2];
      counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(b),
                  static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key1,
                  static_cast<std::uint32_t>(a)}};
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    return counter;
  }

  /// 128 random bits of `index`.
  KOKKOS_INLINE_FUNCTION Block block(std::uint64_t index) const {
    return philox({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                    static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)}},
                  static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32));
  }
  KOKKOS_INLINE_FUNCTION std::uint64_t bits(std::uint64_t index) const {
    const Block b = block(index);
    return (std::uint64_t{b.word[1]} << 32) | b.word[0];
  }
  /// Uniform in [0, 1), a multiple of 2^-53.
  KOKKOS_INLINE_FUNCTION double uniform(std::uint64_t index) const { return unit(bits(index)); }
  /// Uniform in [low, high).
  KOKKOS_INLINE_FUNCTION double uniform(std::uint64_t index, double low, double high) const {
    return low + (high - low) * uniform(index);
  }
  /// Standard normal (Box and Muller's transform of the two halves of the block).
  KOKKOS_INLINE_FUNCTION double normal(std::uint64_t index) const {
    const Block b = block(index);
    const double radius = unit((std::uint64_t{b.word[1]} << 32) | b.word[0]);
    const double angle = unit((std::uint64_t{b.word[3]} << 32) | b.word[2]);
    return std::sqrt(-2.0 * std::log(1.0 - radius)) * std::cos(6.283185307179586 * angle);
  }
  /// Uniform in {0, ..., bound - 1}; the bias is below bound / 2^64.
  KOKKOS_INLINE_FUNCTION std::uint64_t below(std::uint64_t index, std::uint64_t bound) const {
    // The upper half of the 128-bit product bits * bound, from 32-bit halves.
    const std::uint64_t x = bits(index);
    const std::uint64_t x0 = x & 0xFFFFFFFFu, x1 = x >> 32, y0 = bound & 0xFFFFFFFFu, y1 = bound >> 32;
    const std::uint64_t middle = x1 * y0 + ((x0 * y0) >> 32);
    const std::uint64_t carry = x0 * y1 + (middle & 0xFFFFFFFFu);
    return x1 * y1 + (middle >> 32) + (carry >> 32);
  }

 private:
  KOKKOS_INLINE_FUNCTION static double unit(std::uint64_t bits) {
    return static_cast<double>(bits >> 11) * (1.0 / 9007199254740992.0);
  }

  std::uint64_t seed_;
  std::uint64_t stream_;
};

/// A stream number for a name (a parameter's, say), the same on every machine: FNV-1a of its bytes.
std::uint64_t stream_of(std::string_view name);

/// A random order of 0, ..., n - 1 (Fisher and Yates), equal on every rank.
std::vector<Index> random_permutation(Index n, const CounterRandom& random);

/// Fill a tensor of any floating type. The number of an element is its row-major index in the GLOBAL shape,
/// so a shard tensor gets the same values as a plain one.
void fill_uniform(const Tensor& tensor, const CounterRandom& random, double low, double high);
void fill_normal(const Tensor& tensor, const CounterRandom& random, double mean, double deviation);

}  // namespace tessera
