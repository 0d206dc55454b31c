#pragma once

#include <string>
#include <vector>

#include "io/plot/image.hpp"
#include "parallel/box.hpp"

namespace tessera {

struct PlotRequest {
  std::vector<std::string> paths;
  std::vector<std::string> fields;  ///< fields or components; empty: those that vary in time
  Index trajectory = 0;
  std::vector<Index> steps;       ///< from 0; empty: first, middle and last
  std::string axis;               ///< 3-D grids: the axis that is cut, empty: the first
  Index index = -1;               ///< and where; -1: in the middle
  std::vector<std::string> keys;  ///< of histories; empty: loss, valid_loss
  std::string metric;             ///< of comparisons; empty: the first
  std::string title;              ///< empty: made from names
};

/// Fields of one set, or rows of truth | prediction | error for two or more; lines where the grid has one
/// axis. Reads row by row onto at most about a thousand points per axis, on this rank alone.
plot::Image plot_fields(const PlotRequest& request);
/// Curves of JSON Lines files whose objects have a number `step`.
plot::Image plot_histories(const PlotRequest& request);
/// A metric against lead time, or bars where there is one lead time, from the JSON of `post compare`.
plot::Image plot_comparison(const PlotRequest& request);

}  // namespace tessera
