#pragma once

#include <vector>

#include "solver/train/surrogate.hpp"

namespace tessera {

/// A forecast: the surrogate steps forward from the data, its predictions taking the place of the data that
/// lie ahead of the start. Any number of steps.
class Rollout {
 public:
  /// The first prediction is for step `first` of the trajectory. Collective over the domain mesh from here
  /// on.
  Rollout(const Surrogate& surrogate, SampleMaker& maker, Index trajectory, Index first)
      : surrogate_(surrogate), maker_(maker), trajectory_(trajectory), first_(first) {}

  /// Predicts the next step: (cells of this rank's box, fields) in the data's units.
  std::vector<float> next();

 private:
  const Surrogate& surrogate_;
  SampleMaker& maker_;
  Index trajectory_, first_;
  std::vector<std::vector<float>>
      states_;  ///< predictions so far, normalised; those no lag reaches are emptied
};

}  // namespace tessera
