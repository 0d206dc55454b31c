#pragma once

#include <vector>

#include <Kokkos_Core.hpp>

#include "parallel/communicator.hpp"
#include "parallel/layout.hpp"
#include "solver/ops/device_array.hpp"

// Internal to the normalisations.
namespace tessera::norm {

/// Number of values, their mean, and the sum of squared deviations from it.
struct Moment {
  double count = 0;
  double mean = 0;
  double m2 = 0;
};

/// Moments of the union of two sets of values (Chan, Golub, LeVeque 1983).
KOKKOS_INLINE_FUNCTION Moment merge(const Moment& a, const Moment& b) {
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  const double count = a.count + b.count, delta = b.mean - a.mean;
  return {count, a.mean + delta * (b.count / count),
          a.m2 + b.m2 + delta * delta * (a.count * b.count / count)};
}

/// The groups of ranks over which a normalisation's statistics are spread, to be merged one after the other.
using CommGroups = std::vector<CommPtr>;

/// One communicator of all mesh axes that cut a dimension in [first, last) of the layout; none if nothing is
/// cut.
CommGroups groups_over(const Layout& layout, int first, int last);

// Both work element by element, in rank order, so that every rank gets the same bits, by point-to-point
// messages that hold every rank's array: for as many numbers as there are channels, not for one per cell.

/// Each moment merged over the ranks.
void merge_over(const CommGroups& groups, const DeviceArray<Moment>& moments);
/// Each value summed over the ranks.
void sum_over(const CommGroups& groups, const DeviceArray<double>& values);

}  // namespace tessera::norm
