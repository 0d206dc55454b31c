#pragma once

#include <chrono>
#include <limits>
#include <optional>

#include "app/mesh_deck.hpp"

namespace tessera {

/// Measures what each rank spends on its part of the grid, waits for others left out, and says when other cut
/// points would even it out.
class Rebalance {
 public:
  /// Cut points are multiples of `unit[i]` cells on grid axis i. `first_step`: updates made before this run.
  Rebalance(std::optional<MeasuredPartition> wish, Shape unit, Index first_step);

  /// Around one update.
  void start();
  void stop();
  /// After update `step`: the grid cut anew, where that is due and would shorten the slowest rank's time by
  /// more than a twentieth. The same on every rank of `world`; collective where it is due. `grid` (1, *grid,
  /// 1) is cut over the domain mesh.
  std::optional<Layout> due(Index step, Communicator& world, const Layout& grid);

 private:
  std::optional<MeasuredPartition> wish_;
  Shape unit_;
  Index next_ = 0;
  std::chrono::steady_clock::time_point start_;
  double waited_ = 0;            ///< seconds inside communication when the update started
  std::vector<double> seconds_;  ///< of every update since the cut points moved
};

}  // namespace tessera
