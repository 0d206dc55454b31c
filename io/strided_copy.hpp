#pragma once

#include "parallel/inline_vector.hpp"

namespace tessera {

/// Row-major strides of a contiguous buffer, in elements.
inline Shape strides_of(const Shape& shape) {
  Shape strides = Shape::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

/// to[sum i_d to_strides[d]] = value(from[sum i_d from_strides[d]]) for every index i of `shape`; host
/// memory. A source stride of 0 repeats.
template <typename From, typename To, typename Convert>
void copy_strided(const Shape& shape, const From* from, const Shape& from_strides, To* to,
                  const Shape& to_strides, const Convert& convert, int d = 0) {
  if (d == shape.size()) {
    *to = convert(*from);
    return;
  }
  const Index n = shape[d], step = from_strides[d], stride = to_strides[d];
  if (d == shape.size() - 1) {
    for (Index i = 0; i < n; ++i) to[i * stride] = convert(from[i * step]);
    return;
  }
  for (Index i = 0; i < n; ++i) {
    copy_strided(shape, from + i * step, from_strides, to + i * stride, to_strides, convert, d + 1);
  }
}

template <typename From, typename To>
void copy_strided(const Shape& shape, const From* from, const Shape& from_strides, To* to,
                  const Shape& to_strides) {
  copy_strided(shape, from, from_strides, to, to_strides, [](From v) { return static_cast<To>(v); });
}

}  // namespace tessera
