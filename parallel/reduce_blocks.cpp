#include "parallel/reduce_blocks.hpp"

#include <array>
#include <type_traits>

#include "parallel/bfloat16.hpp"

namespace tessera {
namespace {

float load(bfloat16 value) {
  return to_float(value);
}

template <typename T>
T load(T value) {
  return value;
}

template <typename T, typename A>
T store(A value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return to_bfloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<bfloat16> {
  using type = float;
};

template <typename A>
A combine(A a, A b, ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return b > a || b != b ? b : a;  // a NaN wins
    case ReduceOp::min:
      return b < a || b != b ? b : a;
    default:
      return static_cast<A>(a + b);
  }
}

template <typename A>
A quotient(A value, Index divisor) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(value / divisor);
  } else {
    return value / static_cast<A>(divisor);
  }
}

template <typename T>
void reduce(std::span<const void* const> from, T* to, Index count, ReduceOp op, Index divisor) {
  using A = typename Accumulator<T>::type;
  constexpr Index kChunk = 1024;
  std::array<A, kChunk> sum{};
  for (Index begin = 0; begin < count; begin += kChunk) {
    const Index n = std::min(kChunk, count - begin);
    for (std::size_t rank = 0; rank < from.size(); ++rank) {
      const T* block = static_cast<const T*>(from[rank]) + begin;
      A* s = sum.data();
      if (rank == 0) {
        for (Index i = 0; i < n; ++i) s[i] = load(block[i]);
      } else if (op == ReduceOp::sum || op == ReduceOp::avg) {
        for (Index i = 0; i < n; ++i) s[i] = static_cast<A>(s[i] + load(block[i]));
      } else {
        for (Index i = 0; i < n; ++i) s[i] = combine<A>(s[i], load(block[i]), op);
      }
    }
    if (op == ReduceOp::avg) {
      for (A& value : sum) value = quotient(value, divisor);
    }
    for (Index i = 0; i < n; ++i) to[begin + i] = store<T, A>(sum[static_cast<std::size_t>(i)]);
  }
}

template <typename T>
void divide(T* data, Index count, Index divisor) {
  using A = typename Accumulator<T>::type;
  for (Index i = 0; i < count; ++i) data[i] = store<T, A>(quotient<A>(load(data[i]), divisor));
}

/// Calls `body` with a null pointer of the C++ type.
template <typename Body>
void dispatch(DType type, const Body& body) {
  switch (type) {
    case DType::f32:
      return body(static_cast<float*>(nullptr));
    case DType::f64:
      return body(static_cast<double*>(nullptr));
    case DType::bf16:
      return body(static_cast<bfloat16*>(nullptr));
    case DType::i32:
      return body(static_cast<std::int32_t*>(nullptr));
    case DType::i64:
      return body(static_cast<std::int64_t*>(nullptr));
    case DType::u8:
      return body(static_cast<std::uint8_t*>(nullptr));
  }
}

}  // namespace

void reduce_blocks(std::span<const void* const> from, void* to, Index count, DType type, ReduceOp op,
                   Index divisor) {
  dispatch(type, [&]<typename T>(T*) { reduce(from, static_cast<T*>(to), count, op, divisor); });
}

void divide_block(void* data, Index count, DType type, Index divisor) {
  dispatch(type, [&]<typename T>(T*) { divide(static_cast<T*>(data), count, divisor); });
}

}  // namespace tessera
