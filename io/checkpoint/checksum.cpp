#include "io/checkpoint/checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace tessera {
namespace {

constexpr std::uint64_t kMultiplier = 0xd6e8feb86659fd93u;  // odd, with well-mixed bits

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 32)) * kMultiplier;
  x = (x ^ (x >> 29)) * kMultiplier;
  return x ^ (x >> 32);
}

}  // namespace

void Checksum::take_block(const unsigned char* block) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    std::uint64_t word = 0;
    std::memcpy(&word, block + lane * sizeof word, sizeof word);
    lanes_[lane] = std::rotl((lanes_[lane] ^ word) * kMultiplier, 31);
  }
}

void Checksum::update(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const unsigned char*>(data);
  total_ += bytes;
  if (rest_bytes_ > 0) {
    const std::size_t n = std::min(bytes, kBlock - rest_bytes_);
    std::memcpy(rest_.data() + rest_bytes_, next, n);
    rest_bytes_ += n;
    next += n;
    bytes -= n;
    if (rest_bytes_ < kBlock) return;
    take_block(rest_.data());
    rest_bytes_ = 0;
  }
  for (; bytes >= kBlock; bytes -= kBlock, next += kBlock) take_block(next);
  if (bytes > 0) std::memcpy(rest_.data(), next, bytes);
  rest_bytes_ = bytes;
}

std::uint64_t Checksum::value() const {
  Checksum last = *this;
  std::fill(last.rest_.begin() + static_cast<std::ptrdiff_t>(rest_bytes_), last.rest_.end(), std::uint8_t{0});
  last.take_block(last.rest_.data());
  std::uint64_t value = total_;
  for (const std::uint64_t lane : last.lanes_) value = mix(value + lane);
  return value;
}

std::uint64_t checksum_of(std::string_view bytes) {
  Checksum sum;
  sum.update(bytes.data(), bytes.size());
  return sum.value();
}

std::string hex_text(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace tessera
