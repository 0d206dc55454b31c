#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>

#include "parallel/error.hpp"

namespace tessera {

using Index = std::int64_t;

/// Most dimensions a tensor may have: batch, three grid axes, heads, head size, and two to spare.
inline constexpr int kMaxDims = 8;

/// A vector of at most kMaxDims elements that lives without heap memory.
template <typename T>
class InlineVector {
 public:
  InlineVector() = default;
  InlineVector(std::initializer_list<T> values) : InlineVector(values.begin(), values.end()) {}
  explicit InlineVector(std::span<const T> values) : InlineVector(values.begin(), values.end()) {}
  template <std::input_iterator It>
  InlineVector(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  /// `count` copies of `value`.
  static InlineVector filled(int count, const T& value) {
    InlineVector v;
    for (int i = 0; i < count; ++i) v.push_back(value);
    return v;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](int i) { return data_[static_cast<std::size_t>(i)]; }
  const T& operator[](int i) const { return data_[static_cast<std::size_t>(i)]; }
  T* begin() { return data_.data(); }
  T* end() { return data_.data() + size_; }
  const T* begin() const { return data_.data(); }
  const T* end() const { return data_.data() + size_; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }

  void push_back(const T& value) {
    require(size_ < kMaxDims, "InlineVector", "more than {} dimensions", kMaxDims);
    data_[static_cast<std::size_t>(size_++)] = value;
  }
  void pop_back() { --size_; }
  void insert(int at, const T& value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(int at) {
    std::move(begin() + at + 1, end(), begin() + at);
    --size_;
  }

  bool operator==(const InlineVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::array<T, kMaxDims> data_{};
  int size_ = 0;
};

/// Sizes of the dimensions of a tensor or an index space; `{}` is a scalar.
using Shape = InlineVector<Index>;

/// Number of elements: the product of the sizes, 1 for a scalar.
inline Index count(const Shape& shape) {
  Index n = 1;
  for (Index extent : shape) n *= extent;
  return n;
}

/// "(2, 3, 4)".
inline std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + ")";
}

}  // namespace tessera
