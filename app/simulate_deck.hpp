#pragma once

#include "io/deck/deck.hpp"
#include "solver/physics/shallow_water_initial.hpp"

namespace tessera {

/// Keys of the section `simulate`: everything that the numbers depend on.
void describe_simulate(Section& section);

/// What section `simulate` asks of the shallow-water solver.
struct WaterDeck {
  ShallowWaterOptions options;
  WaterStartOptions start;
  double every = 0;  ///< s between two output steps
  Index steps = 0;   ///< output steps, the initial state included
};

/// Throws (usage), with the place in the deck.
WaterDeck read_water(const Deck& simulate);

}  // namespace tessera
