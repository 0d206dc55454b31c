#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

enum class InterpolateMode : std::uint8_t {
  nearest,        ///< input floor(o * n / size), in single precision as torch computes it
  nearest_exact,  ///< input floor((o + 1/2) * n / size), likewise
  linear,         ///< linear, bilinear, trilinear: a product over the axes
  cubic,          ///< convolution with a = -0.75 (Keys, 1981), the edges repeated
  area,           ///< averages of the inputs that an output covers (adaptive average pooling)
};

/// Resamples the grid axes of (batch, *grid, channels) to `size`. `align_corners` (linear, cubic): the first
/// and last elements coincide; else the ends of the axes do. torch.nn.functional.interpolate with `size`.
///
/// Any layout: a grid axis cut at c is cut at round(c * size / n) afterwards; the inputs that a rank's
/// outputs need beyond its own are exchanged. Throws (usage) where sizes do not fit.
Tensor interpolate(const Tensor& x, const Shape& size, InterpolateMode mode, bool align_corners = false);

}  // namespace tessera
