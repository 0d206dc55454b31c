#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// Insertions, deletions, replacements and swaps of neighbouring letters that turn `a` into `b`
/// (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, the first of equals; empty when none is within a third of the longer
/// one's length (and at least one edit). Capitals count as small letters.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace tessera
