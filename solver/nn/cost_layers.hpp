#pragma once

#include "solver/nn/cost_tape.hpp"
#include "solver/ops/window/window.hpp"

// Internal to the cost counts: each operator with what its implementation in solver/ops allocates, keeps for
// the backward pass, multiplies and sends.
namespace tessera::cost {

/// In another type from here on; null gradient for what needs none.
Field cast(Tape& tape, const Field& x, DType type);
Field convolution(Tape& tape, const Field& x, const Window& window, Index out_channels);
Field linear(Tape& tape, const Field& x, Index out_channels);
Field layer_norm(Tape& tape, const Field& x);
/// `residual`: null if there is none.
Field group_norm_gelu(Tape& tape, const Field& x, Index groups, const Field* residual);
/// gelu, relu, square, ...
Field unary(Tape& tape, const Field& x);
Field add(Tape& tape, const Field& a, const Field& b);
/// x + a plain parameter of x's shape.
Field add_parameter(Tape& tape, const Field& x);
/// The mean over everything, reduced over the ranks.
void mean_of_all(Tape& tape, const Field& x);
/// sum over k of factor[k] weight[k, cell, channel], a parameter cut like the grid.
Field weighted_terms(Tape& tape, const GridCuts& cuts, Index channels, Index terms);

/// Equal shares of the channels, copied out; their gradients go into one.
std::vector<Field> unbind(Tape& tape, const Field& x, Index parts);
/// The same elements in another order, as a field with these cuts and channels.
Field permute(Tape& tape, const Field& x, const GridCuts& cuts, Index channels);
/// The grid with `more[a]` cells added at the high end of axis a, read from `boundary[a]`.
Field pad_high(Tape& tape, const Field& x, int axis, Index more, Boundary boundary);
Field crop_high(Tape& tape, const Field& x, const Shape& extents);
Field redistribute(Tape& tape, const Field& x, const GridCuts& cuts);

/// q, k and v alike.
Field attention(Tape& tape, const Field& q, const Field& k, const Field& v, Index heads);
Field neighborhood_attention(Tape& tape, const Field& q, const Field& k, const Field& v, Index heads,
                             Index kernel_size);

/// Runs `body` without recording, and again in the backward pass.
Field checkpoint(Tape& tape, const Field& x, const std::function<Field(Tape&, const Field&)>& body);

}  // namespace tessera::cost
