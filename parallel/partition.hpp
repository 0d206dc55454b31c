#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/box.hpp"

namespace tessera {

/// Cut points of one axis, `0 = c0 <= c1 <= ... <= cP = n`: part p owns `[c_p, c_{p+1})`. Parts may be empty.
class Partition {
 public:
  /// From cut points. Throws unless they start at 0 and never decrease.
  explicit Partition(std::vector<Index> cuts);

  /// Sizes differ by at most one, the larger parts first.
  static Partition even(Index extent, int parts);
  /// ceil(n / P) each, the last parts short or empty (PyTorch's rule for Shard).
  static Partition chunk(Index extent, int parts);
  static Partition from_sizes(std::span<const Index> sizes);
  /// Sizes in proportion to `weights` (>= 0, not all zero), cut points rounded to multiples of `unit`.
  static Partition from_weights(Index extent, std::span<const double> weights, Index unit = 1);

  /// Cut points that even out work measured under `old`: part p took `seconds[p]`. Its speed is its size over
  /// its seconds; parts that had nothing, or took no time, get the mean speed.
  static Partition balanced(const Partition& old, std::span<const double> seconds, Index unit = 1);

  int parts() const { return static_cast<int>(cuts_.size()) - 1; }
  Index extent() const { return cuts_.back(); }
  Range range(int part) const {
    return {cuts_[static_cast<std::size_t>(part)], cuts_[static_cast<std::size_t>(part) + 1]};
  }
  std::span<const Index> cuts() const { return cuts_; }
  /// The part that owns index i (0 <= i < extent).
  int owner(Index i) const;

  /// Cut points of the outputs of a window with this stride: output j sits where its input j * stride sits,
  /// so cut c becomes min(ceil(c / stride), outputs), the last one `outputs`.
  Partition strided(Index stride, Index outputs) const;
  /// Cut points of the outputs of a transposed window: min(c * stride, outputs), the last one `outputs`.
  Partition transposed(Index stride, Index outputs) const;

  bool operator==(const Partition&) const = default;

 private:
  std::vector<Index> cuts_;
};

/// "0:3:5" (the cut points).
std::string to_string(const Partition& partition);

}  // namespace tessera
