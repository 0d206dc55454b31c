#include "parallel/axis_map.hpp"

#include "parallel/division.hpp"

namespace tessera {
namespace {

/// Floor of a / b for b > 0.
/// Adds destination [lo, hi) reading from, from + step, ... unless it is empty.
void add(AxisMap& map, Index lo, Index hi, Index from, Index step) {
  if (lo < hi) map.segments.push_back({lo, hi - lo, from, step});
}

void add_periodic(AxisMap& map, Index n) {
  for (Index i = map.range.lo; i < map.range.hi;) {
    const Index period = floor_div(i, n) * n;  // index 0 of the copy of the axis that i lies in
    const Index end = std::min(period + n, map.range.hi);
    add(map, i, end, i - period, 1);
    i = end;
  }
}

void add_reflect(AxisMap& map, Index n) {
  const Range r = map.range;
  require(r.lo > -n && r.hi <= 2 * n - 1, "map_with_boundary",
          "range [{}, {}) reflects more than {} of {} indices", r.lo, r.hi, n - 1, n);
  add(map, r.lo, std::min<Index>(r.hi, 0), -r.lo, -1);
  add(map, std::max<Index>(r.lo, 0), std::min(r.hi, n), std::max<Index>(r.lo, 0), 1);
  const Index beyond = std::max(r.lo, n);
  add(map, beyond, r.hi, 2 * (n - 1) - beyond, -1);
}

void add_replicate(AxisMap& map, Index n) {
  const Range r = map.range;
  add(map, r.lo, std::min<Index>(r.hi, 0), 0, 0);
  add(map, std::max<Index>(r.lo, 0), std::min(r.hi, n), std::max<Index>(r.lo, 0), 1);
  add(map, std::max(r.lo, n), r.hi, n - 1, 0);
}

}  // namespace

AxisMap map_with_boundary(Range needed, Index n, Boundary boundary) {
  AxisMap map{needed, {}};
  if (needed.empty()) return map;
  if (boundary == Boundary::zero) {
    const Range inside = intersect(needed, {0, n});
    add(map, inside.lo, inside.hi, inside.lo, 1);
    return map;
  }
  require(n > 0, "map_with_boundary", "range [{}, {}) reads an axis without indices", needed.lo, needed.hi);
  switch (boundary) {
    case Boundary::periodic:
      add_periodic(map, n);
      break;
    case Boundary::reflect:
      add_reflect(map, n);
      break;
    default:
      add_replicate(map, n);
      break;
  }
  return map;
}

AxisMap map_identity(Range needed) {
  return map_affine(needed, 0, 1);
}

AxisMap map_affine(Range needed, Index start, Index step) {
  AxisMap map{needed, {}};
  add(map, needed.lo, needed.hi, start + needed.lo * step, step);
  return map;
}

}  // namespace tessera
