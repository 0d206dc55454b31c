#pragma once

#include <string>
#include <vector>

#include "app/data_deck.hpp"
#include "solver/nn/cost.hpp"

namespace tessera {

/// A training run as a deck describes it for a number of ranks: counted, not run.
struct TrainingPlan {
  std::vector<MeshAxis> axes;           ///< ddp, then the domain axes
  GridCuts cuts;                        ///< of the grid, over a domain group
  std::vector<std::string> axis_names;  ///< of the grid
  std::string model_type, optimizer;
  ModelConfig model;
  CostTerms terms;
  Index accumulate = 1;
  Index optimizer_states = 0;  ///< tensors of a parameter's size that the optimiser keeps
  bool average = false;        ///< a moving average of the parameters is kept
  Index steps = 0;             ///< time steps of the training and validation data
  Index fields = 0;
  std::size_t cache_bytes = 0;  ///< most that each of their caches holds

  int ddp() const { return axes.front().size; }
};

/// `deck` is a deck of `tessera train`. Throws (usage), with the place in the deck, where ranks, mesh, grid
/// or model do not fit together.
TrainingPlan make_plan(const Deck& deck, const DataSet& data, int ranks);

/// Boxes, memory, operations and traffic of the smallest and the largest box, as tables.
std::string plan_text(const TrainingPlan& plan);

}  // namespace tessera
