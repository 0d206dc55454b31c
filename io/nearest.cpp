#include "io/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace tessera {
namespace {

// Levenshtein distance that forgets about case.
std::size_t distance(std::string_view a, std::string_view b) {
  auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (lower(a[i - 1]) != lower(b[j - 1]) ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = name.size() / 2 + 2;
  for (const std::string& candidate : candidates) {
    if (const std::size_t d = distance(name, candidate); d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

std::string nearest_hint(std::string_view name, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : "; nearest name '" + nearest + "'";
}

}  // namespace tessera
