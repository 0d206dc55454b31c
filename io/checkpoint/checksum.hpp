#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// A 64-bit checksum of a stream of bytes, against damage, not against malice. Four lanes of multiply and
/// rotate, about 10 GB/s; the value does not depend on how the stream is cut into calls.
class Checksum {
 public:
  void update(const void* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kBlock = 32;
  void take_block(const unsigned char* block);

  std::array<std::uint64_t, 4> lanes_{0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                      0x27d4eb2f165667c5u};
  std::array<unsigned char, kBlock> rest_{};
  std::size_t rest_bytes_ = 0;
  std::uint64_t total_ = 0;
};

std::uint64_t checksum_of(std::string_view bytes);
/// Sixteen hexadecimal digits.
std::string hex_text(std::uint64_t value);

}  // namespace tessera
