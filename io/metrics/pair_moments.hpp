#pragma once

#include <span>
#include <vector>

#include "io/statistics/moments.hpp"
#include "parallel/communicator.hpp"

namespace tessera {

/// What the metrics in space need to know of a stream of pairs (truth, prediction) and of their difference
/// d = prediction - truth; two of them merge without loss.
struct PairMoments {
  Moments truth, prediction, difference;
  double co = 0;            ///< sum of (truth - mean) (prediction - mean)
  double sum_abs = 0;       ///< sum of |d|
  double edge_count = 0;    ///< points on the boundary of the grid
  double edge_squares = 0;  ///< sum of d^2 over them

  void merge(const PairMoments& other);
  double count() const { return truth.count; }
  /// Mean of d^2.
  double mean_square() const;
  /// Mean of truth^2.
  double truth_mean_square() const;
  /// Largest |d|; NaN where a difference is NaN.
  double largest() const;
};

/// Adds `cells` points of every channel; host memory (cells, channels) with moments.size() channels.
/// `edge_cells`: which of the cells lie on the boundary of the grid.
void add_pairs(std::span<PairMoments> moments, const double* truth, const double* prediction, Index cells,
               std::span<const Index> edge_cells);

/// Merges the ranks' moments in rank order, so all get the same bits. Collective.
void all_merge(Communicator& comm, std::span<PairMoments> moments);

}  // namespace tessera
