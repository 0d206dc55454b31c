#pragma once

#include <vector>

#include "parallel/box.hpp"

namespace tessera {

/// What lies beyond the ends of an axis.
enum class Boundary : std::uint8_t {
  zero,       ///< a constant supplied by the operator; nothing is moved
  periodic,   ///< index i reads i mod n
  reflect,    ///< index -i reads i, without repeating the edge
  replicate,  ///< the nearest edge
};

/// Destination indices [lo, lo + count) of one axis read source indices from, from + step, from + 2 step, ...
///   step  1: a shift        step -1: mirrored
///   step  0: one repeated   step  s: every s-th
struct AxisSegment {
  Index lo = 0;
  Index count = 0;
  Index from = 0;
  Index step = 1;
  bool operator==(const AxisSegment&) const = default;
};

/// Where a rank's destination indices of one axis come from: the range its destination buffer spans, and the
/// segments that are filled. What no segment covers is left alone.
struct AxisMap {
  Range range;
  std::vector<AxisSegment> segments;
  bool operator==(const AxisMap&) const = default;
};

/// Destination range `needed` of an axis of n source indices; may overhang [0, n) on both sides by any
/// amount, several times n if periodic or replicate. Throws for reflect beyond n - 1.
AxisMap map_with_boundary(Range needed, Index n, Boundary boundary);
/// Destination i reads source i; `needed` lies within the source.
AxisMap map_identity(Range needed);
/// Destination i reads start + i * step (step != 0).
AxisMap map_affine(Range needed, Index start, Index step);

}  // namespace tessera
