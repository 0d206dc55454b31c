#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/gradient_reducer.hpp"
#include "parallel/partition.hpp"
#include "solver/nn/model.hpp"

// What training a model costs a rank, computed from its configuration and the boxes alone: nothing is run,
// nobody is asked. The counts follow the models layer by layer, and each layer follows its operator: what it
// allocates and keeps for the backward pass, whom it sends what.
namespace tessera {

/// How a grid is cut over a domain group: one Partition per grid axis, of one part where it is whole. Ranks
/// number the parts row-major.
using GridCuts = std::vector<Partition>;

int ranks_of(const GridCuts& cuts);
/// The part that a rank has of every axis.
InlineVector<int> parts_of(const GridCuts& cuts, int rank);
/// A rank's box of the grid.
Box box_of(const GridCuts& cuts, int rank);

/// Calls and payload bytes of one rank, as CommStats counts them.
struct Traffic {
  Index calls = 0;
  Index bytes = 0;
  bool operator==(const Traffic&) const = default;
};
/// By tensor operator and communication: {"conv", "send"}, {"gradient reducer", "all_reduce"}.
using TrafficTable = std::map<std::pair<std::string, std::string>, Traffic>;

/// What surrounds the model in training.
struct CostTerms {
  bool base = false;   ///< a known field is added to the output
  Index seasonal = 0;  ///< basis functions of the seasonal term; 0: none
};

/// One sample forward and backward, loss (mean squared error) included, on one rank.
struct SampleCost {
  /// Of matrix products and convolutions, a multiply-add counting 2; recomputation counts as backward.
  double forward_operations = 0, backward_operations = 0;
  TrafficTable forward, backward;
  Index kept_bytes = 0;  ///< held from the forward for the backward pass
  Index halo_bytes = 0;  ///< of these: halos, and inputs and keys copied together with theirs
  Index peak_bytes = 0;  ///< most at once, beside parameters, their gradients, input, target and base
};

/// `cuts` cuts the grid of the configuration. Field heads only. Throws (usage) as the model would.
SampleCost sample_cost(const ModelConfig& config, const GridCuts& cuts, int rank,
                       const CostTerms& terms = {});
/// Elements of every parameter, in the order of Module::parameters().
std::vector<Index> parameter_counts(const ModelConfig& config);
/// The reduction of the gradients of these parameters: calls (buckets) and bytes that each rank contributes.
Traffic gradient_traffic(std::span<const Index> counts, DType type,
                         const GradientReducerOptions& options = {});

}  // namespace tessera
