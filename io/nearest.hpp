#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// The candidate with the smallest edit distance to `name`; "" if there is none, or none that is reasonably
/// close.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// "; nearest name 'x'" or "" : to be put at the end of an error text.
std::string nearest_hint(std::string_view name, std::span<const std::string> candidates);

}  // namespace tessera
