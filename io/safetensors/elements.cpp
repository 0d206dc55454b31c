#include "io/safetensors/elements.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

struct Kind {
  std::string_view name;
  std::size_t width;
  double (*decode)(const char*);
};

template <typename T>
double decode(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}

// IEEE half: 1 sign, 5 exponent, 10 mantissa bits.
double decode_half(const char* from) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else {
    value = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  }
  return bits & 0x8000 ? -value : value;
}

double decode_bfloat(const char* from) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::array<Kind, 10> kKinds{{{"F64", 8, decode<double>},
                                       {"F32", 4, decode<float>},
                                       {"F16", 2, decode_half},
                                       {"BF16", 2, decode_bfloat},
                                       {"I64", 8, decode<std::int64_t>},
                                       {"I32", 4, decode<std::int32_t>},
                                       {"I16", 2, decode<std::int16_t>},
                                       {"I8", 1, decode<std::int8_t>},
                                       {"U8", 1, decode<std::uint8_t>},
                                       {"BOOL", 1, decode<std::uint8_t>}}};

const Kind* find(std::string_view dtype) {
  for (const Kind& kind : kKinds) {
    if (kind.name == dtype) return &kind;
  }
  return nullptr;
}

template <typename T>
void put(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

std::uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void encode(DType type, double value, char* to) {
  switch (type) {
    case DType::f32:
      return put(to, static_cast<float>(value));
    case DType::f64:
      return put(to, value);
    case DType::bf16:
      return put(to, to_bfloat(static_cast<float>(value)));
    case DType::i32:
      return put(to, static_cast<std::int32_t>(value));
    case DType::i64:
      return put(to, static_cast<std::int64_t>(value));
    case DType::u8:
      return put(to, static_cast<std::uint8_t>(value));
  }
}

}  // namespace

std::size_t safetensors_width(std::string_view dtype) {
  const Kind* kind = find(dtype);
  return kind ? kind->width : 0;
}

std::string_view safetensors_name(DType type) {
  constexpr std::string_view names[] = {"F32", "F64", "BF16", "I32", "I64", "U8"};
  return names[static_cast<int>(type)];
}

void convert_elements(std::string_view dtype, const char* from, DType type, char* to, Index n) {
  const Kind* kind = find(dtype);
  if (dtype == safetensors_name(type)) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * kind->width);
    return;
  }
  for (Index i = 0; i < n; ++i, from += kind->width, to += size_of(type))
    encode(type, kind->decode(from), to);
}

}  // namespace tessera
