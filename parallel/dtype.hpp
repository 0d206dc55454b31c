#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

/// Element types of buffers and tensors.
enum class DType : std::uint8_t { f32, f64, bf16, i32, i64, u8 };

/// Brain float: the upper half of an IEEE single. Arithmetic happens in float.
struct bfloat16 {
  std::uint16_t bits = 0;
};

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::bf16:
      return 2;
    case DType::u8:
      return 1;
    default:
      return 4;
  }
}

constexpr std::string_view name_of(DType type) {
  constexpr std::string_view names[] = {"f32", "f64", "bf16", "i32", "i64", "u8"};
  return names[static_cast<int>(type)];
}

constexpr bool is_floating(DType type) {
  return type <= DType::bf16;
}

template <typename T>
struct dtype_of_t;
template <>
struct dtype_of_t<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of_t<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of_t<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of_t<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of_t<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of_t<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

/// The DType of a C++ element type.
template <typename T>
inline constexpr DType dtype_of = dtype_of_t<T>::value;

}  // namespace tessera
