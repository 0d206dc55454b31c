#pragma once

#include "solver/tensor/tensor.hpp"

// Internal to the operators that look elements up.
namespace tessera {

/// Smallest and largest element; both 0 where there are none.
struct IndexBounds {
  std::int64_t least = 0, most = 0;
};

/// Of a whole tensor of indices (i64): where it is cut, the ranks agree in one small all-reduce, so that all
/// of them refuse an index that only some hold.
IndexBounds index_bounds(const Tensor& index);

}  // namespace tessera
