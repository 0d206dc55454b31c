#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "parallel/communicator.hpp"

namespace tessera::bench {

/// Times of one piece of work, in seconds, each the longest over the ranks.
struct Timing {
  double median = 0;
  double low = 0, high = 0;  ///< quartiles
  int repeats = 0;           ///< times that the figures are made of
  std::size_t extra_memory =
      0;  ///< device memory of the fullest rank at its most, beyond what it held before

  /// Distance of the quartiles over the median.
  double spread() const { return median > 0 ? (high - low) / median : 0; }
};

struct MeasureOptions {
  int repeats = 0;  ///< 0: as many as fit into `seconds`, but at least `fewest`
  int fewest = 5;
  double seconds = 1;
};

/// Runs `body` on all ranks of the group twice to warm up, then again and again: barrier, run, longest time
/// over the ranks. A body of microseconds is run several times between two barriers. Collective.
Timing measure(Communicator& group, const std::function<void()>& body, const MeasureOptions& options);

/// The quantile `q` in [0, 1] of sorted values, between two of them in proportion.
double quantile(const std::vector<double>& sorted, double q);

}  // namespace tessera::bench
