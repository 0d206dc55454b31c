#pragma once

#include <span>
#include <string>
#include <string_view>

#include "io/deck/nearest.hpp"

namespace tessera {

/// "; nearest name 'x'", to be put at the end of an error text, or "".
inline std::string nearest_hint(std::string_view name, std::span<const std::string> candidates) {
  const std::string best = nearest(name, candidates);
  return best.empty() ? "" : "; nearest name '" + best + "'";
}

}  // namespace tessera
