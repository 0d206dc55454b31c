#pragma once

#include "io/deck/deck.hpp"
#include "solver/nn/model.hpp"

namespace tessera {

/// Keys of the section `model`.
void describe_model(Section& section);

/// The configuration that section `model` describes, for a grid and numbers of channels that the data give;
/// `edges` are the data's own boundary conditions per axis, taken where the deck leaves them to the data.
ModelConfig model_config(const Deck& model, const Shape& grid, const InlineVector<Boundary>& edges,
                         Index in_channels, Index out_channels);

/// Cells of a patch per axis, known before the grid is.
Shape patch_of(const Deck& model, int axes);

}  // namespace tessera
