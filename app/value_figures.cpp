#include "app/value_figures.hpp"

#include <cmath>

#include <fmt/format.h>

namespace tessera {

void add_values(std::vector<ValueFigures>& ranges, const std::vector<double>& values) {
  std::vector<double> good;
  for (std::size_t c = 0; c < ranges.size(); ++c) {
    good.clear();
    for (std::size_t i = c; i < values.size(); i += ranges.size()) {
      if (std::isfinite(values[i])) {
        good.push_back(values[i]);
      } else {
        ++ranges[c].bad;
      }
    }
    add_cells({&ranges[c].moments, 1}, good.data(), static_cast<Index>(good.size()));
  }
}

std::vector<std::string> figure_cells(const ValueFigures& range) {
  if (range.moments.count == 0)
    return {"-", "-", "-", "-", range.bad > 0 ? fmt::format("{:.0f}", range.bad) : ""};
  const Moments& m = range.moments;
  return {fmt::format("{:.5g}", m.min), fmt::format("{:.5g}", m.mean), fmt::format("{:.5g}", m.max),
          fmt::format("{:.5g}", m.deviation()), range.bad > 0 ? fmt::format("{:.0f}", range.bad) : ""};
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

}  // namespace tessera
