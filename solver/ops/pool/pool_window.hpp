#pragma once

#include "solver/ops/pool/pool.hpp"
#include "solver/ops/window/window.hpp"

namespace tessera {

/// The window of a pooling of (batch, *grid, channels). Throws (usage) where the options do not fit.
/// `padding` gets the padding of each axis, which pad_hi of a ceiled window is not.
Window pool_window(const Shape& input, const PoolOptions& options, const char* op, Shape& padding);

}  // namespace tessera
