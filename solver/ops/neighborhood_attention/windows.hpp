#pragma once

#include <vector>

#include "parallel/box.hpp"
#include "solver/ops/device_array.hpp"

// Internal to neighbourhood attention: which keys a query sees.
namespace tessera::neighborhood {

/// Windows along one grid axis of n points.
struct Axis {
  Index n = 1;
  Index kernel = 1;
  Index dilation = 1;

  /// The first point that point i sees; the others follow `dilation` apart.
  Index first(Index i) const;
  /// The points that the windows of [range) span.
  Range needed(Range range) const;
};

inline constexpr int kAxes = 3;  // grids of fewer axes have leading axes of one point

/// The windows of a rank's queries within its region of fetched keys, as tables in device memory.
struct Windows {
  Index queries[kAxes];  ///< local extent
  Index region[kAxes];   ///< extent of the fetched keys
  Index kernel[kAxes];
  Index dilation[kAxes];
  std::vector<Index> host_first[kAxes];
  DeviceArray<Index> first[kAxes];      ///< of each query: its first key, relative to the region
  DeviceArray<Index> seen_from[kAxes];  ///< of each key: begin of its queries in seen_by; one more at the end
  DeviceArray<Index> seen_by[kAxes];    ///< the queries that see a key, key by key

  Index window() const { return kernel[0] * kernel[1] * kernel[2]; }
};

/// `range[a]`: the rank's queries on axis a.
Windows make_windows(const Axis (&axes)[kAxes], const Range (&range)[kAxes]);

}  // namespace tessera::neighborhood
