#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// Windows of pooling over the grid axes of (batch, *grid, channels), one to three of them. A list holds one
/// number per axis, or one for all.
struct PoolOptions {
  Shape kernel{};
  Shape stride{};                 ///< empty: the kernel
  Shape padding{};                ///< on both sides; at most half of what the kernel spans. Empty: none
  Shape dilation{};               ///< max_pool only. Empty: 1
  bool ceil_mode = false;         ///< also windows that overhang the upper end, if they start before it
  bool count_include_pad = true;  ///< avg_pool: the padding counts as elements of value 0
};

/// Averages over windows. torch.nn.functional.avg_pool1d, 2d, 3d on channels-last tensors. Any layout: grid
/// axes exchange halos and keep their cut points divided by the stride.
Tensor avg_pool(const Tensor& x, const PoolOptions& options);

struct MaxPooled {
  Tensor values;
  Tensor indices;  ///< i64: row-major position of each maximum in the global grid; the first of equal ones
};
/// Largest elements of windows; NaN counts as largest. torch.nn.functional.max_pool1d, 2d, 3d.
MaxPooled max_pool(const Tensor& x, const PoolOptions& options);

}  // namespace tessera
