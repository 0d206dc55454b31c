#pragma once

#include "app/plan.hpp"

namespace tessera {

/// All that is counted of one rank of a domain group.
struct RankCost {
  Index cells = 0;
  SampleCost kept, recomputed;   ///< without and with recomputation
  Index plain = 0, sharded = 0;  ///< parameters: whole on every rank, cut like the grid
  Traffic gradients, sharded_gradients;
  Index parameter_bytes = 0, optimizer_bytes = 0, average_bytes = 0;
  Index sample_bytes = 0;  ///< input, target and base

  const SampleCost& sample(bool recompute) const { return recompute ? recomputed : kept; }
  Index gradient_bytes() const { return gradients.bytes + sharded_gradients.bytes; }
  /// Most on the device at once.
  Index device_bytes(bool recompute) const {
    return parameter_bytes + gradient_bytes() + optimizer_bytes + average_bytes + sample_bytes +
           sample(recompute).peak_bytes;
  }
};
RankCost cost_of(const TrainingPlan& plan, int rank);

/// The most that any rank of a domain group has on its device.
Index largest_device_bytes(const TrainingPlan& plan, bool recompute);

}  // namespace tessera
