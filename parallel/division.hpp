#pragma once

#include "parallel/inline_vector.hpp"

namespace tessera {

/// a / b rounded down, whatever the signs; b is not 0.
constexpr Index floor_div(Index a, Index b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
/// a / b rounded up.
constexpr Index ceil_div(Index a, Index b) {
  return -floor_div(-a, b);
}

}  // namespace tessera
