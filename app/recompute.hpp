#pragma once

#include "app/plan.hpp"
#include "parallel/communicator.hpp"

namespace tessera {

/// Whether `train.recompute` asks for recomputation, and why.
struct RecomputeChoice {
  bool blocks = false;
  std::string reason = {};  ///< of `auto`: what was predicted, and what there is
};

/// `auto` compares the plan with `train.memory`, or with the ranks' shares of what their hosts have free, the
/// least of them. Collective.
RecomputeChoice choose_recompute(const Deck& deck, const TrainingPlan& plan, Communicator& world);

}  // namespace tessera
