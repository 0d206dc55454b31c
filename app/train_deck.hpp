#pragma once

#include "io/deck/deck.hpp"
#include "solver/train/trainer.hpp"

namespace tessera {

/// The deck of `tessera train`: mesh, data, model, train, validate, checkpoint.
Schema train_schema();

/// Section `train`, with the number of updates already known.
TrainerOptions trainer_options(const Deck& deck, Index total_steps);

}  // namespace tessera
