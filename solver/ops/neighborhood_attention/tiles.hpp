#pragma once

#include "solver/ops/neighborhood_attention/kernel.hpp"

// Internal to neighbourhood attention: tiles of neighbouring queries share most of their keys, so a matrix
// product of a tile with the box that holds all its keys is faster than dot products, although some of its
// scores are thrown away.
namespace tessera::neighborhood {

/// Whether the boxes waste little enough.
bool tiles_pay(const Problem& problem);

/// Values that the tiles need beside operands and results.
Index tile_scratch(const Problem& problem, bool backward);

/// As forward() and backward(), in f32.
template <typename T>
void forward_by_tiles(const Problem& problem, const T* q, const T* k, const T* v, T* out, float* lse);
template <typename T>
void backward_by_tiles(const Problem& problem, const BackwardInputs<T, float>& in, T* dq, float* dk,
                       float* dv);

}  // namespace tessera::neighborhood
