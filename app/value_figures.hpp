#pragma once

#include <string>
#include <vector>

#include "io/statistics/moments.hpp"

namespace tessera {

/// Moments of the finite values, and how many others there are.
struct ValueFigures {
  Moments moments;
  double bad = 0;
};

/// Adds values of (points, figures.size() channels).
void add_values(std::vector<ValueFigures>& figures, const std::vector<double>& values);

/// Least, mean, greatest, deviation, and the number of values that are not finite (nothing if there are
/// none).
std::vector<std::string> figure_cells(const ValueFigures& figures);

std::string or_dash(const std::string& text);

}  // namespace tessera
