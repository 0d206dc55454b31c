#pragma once

#include <optional>

#include "solver/tensor/tensor.hpp"

namespace tessera {

struct NeighborhoodOptions {
  Shape kernel_size = {7};           ///< odd; one value for all grid axes, or one per axis
  Shape dilation = {1};              ///< likewise, >= 1
  std::optional<double> scale = {};  ///< 1 / sqrt(d) if absent
};

/// Attention of each grid point to the window of `kernel_size` points around it, shifted so that it lies
/// inside the grid. q, k (B, *grid, heads, d), v (B, *grid, heads, dv), 1 to 3 grid axes of at least
/// kernel_size * dilation points
/// -> (B, *grid, heads, dv). With dilation D, point i sees points of its own residue modulo D only (Hassani
/// et al. 2023).
///
/// Layouts: batch, grid axes and heads may be cut on any mesh axes, uneven or empty; windows may reach over
/// several ranks. The output is laid out as q; a whole q takes the layout of k. Each rank fetches the keys
/// and values of its windows with one exchange; the backward pass returns their gradients with its adjoint.
/// Throws where sizes do not fit.
Tensor neighborhood_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const NeighborhoodOptions& options);

}  // namespace tessera
