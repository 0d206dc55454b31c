#pragma once

#include <algorithm>
#include <string>

#include "parallel/inline_vector.hpp"

namespace tessera {

/// Half-open range of indices, `[lo, hi)`.
struct Range {
  Index lo = 0;
  Index hi = 0;

  Index size() const { return std::max<Index>(hi - lo, 0); }
  bool empty() const { return hi <= lo; }
  bool contains(Index i) const { return lo <= i && i < hi; }
  bool operator==(const Range&) const = default;
};

inline Range intersect(Range a, Range b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

/// Half-open box of a global index space: one Range per dimension. It is empty if any of its ranges is.
class Box : public InlineVector<Range> {
 public:
  using InlineVector<Range>::InlineVector;

  /// The whole index space of `shape`.
  static Box whole(const Shape& shape) {
    Box box;
    for (Index extent : shape) box.push_back({0, extent});
    return box;
  }

  bool is_empty() const {
    return std::any_of(begin(), end(), [](Range r) { return r.empty(); });
  }
  /// Extent of each dimension.
  Shape shape() const {
    Shape s;
    for (Range r : *this) s.push_back(r.size());
    return s;
  }
  Index volume() const { return count(shape()); }
};

inline Box intersect(const Box& a, const Box& b) {
  require(a.size() == b.size(), "intersect", "boxes of {} and {} dimensions", a.size(), b.size());
  Box c;
  for (int d = 0; d < a.size(); ++d) c.push_back(intersect(a[d], b[d]));
  return c;
}

/// "[0:4, 2:7]".
inline std::string to_string(const Box& box) {
  std::string text = "[";
  for (int d = 0; d < box.size(); ++d) {
    text += (d ? ", " : "") + std::to_string(box[d].lo) + ":" + std::to_string(box[d].hi);
  }
  return text + "]";
}

}  // namespace tessera
