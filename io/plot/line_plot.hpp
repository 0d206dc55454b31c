#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/plot/image.hpp"
#include "io/plot/ticks.hpp"

namespace tessera::plot {

enum class LineStyle { solid, dashed, dotted, none };

/// Points (x[i], y[i]), joined in this order. A value that is not finite, or not positive on a logarithmic
/// axis, breaks the line; a point without a neighbour is drawn as a dot.
struct Series {
  std::string label{};  ///< in the legend; empty: not listed
  std::vector<double> x{}, y{};
  LineStyle style = LineStyle::solid;
  bool markers = false;  ///< a dot at every point
  int color = -1;        ///< index for line_color; -1: the series' own number
  double width = 1.8;
  double opacity = 1;
};

struct LinePlotOptions {
  std::string title{}, x_label{}, y_label{};
  bool log_x = false, log_y = false;
  std::optional<ValueRange> x_range{}, y_range{};  ///< default: that of the values, with some room
  TickStyle x_ticks = TickStyle::decimal;
  bool from_zero = false;            ///< a linear y axis that includes zero
  double width = 660, height = 420;  ///< of the picture, in units of 1/96 inch; tall titles add to it
  double scale = 2;                  ///< pixels per unit
};

/// Draws the series in one frame with grid, ticks and a legend above. Fails when x and y of a series differ
/// in length.
Image draw_lines(const std::vector<Series>& series, const LinePlotOptions& options = {});

/// Values to compare, one per category; NaN leaves a gap marked "n/a".
struct BarSeries {
  std::string label{};
  std::vector<double> values{};
};

struct BarPlotOptions {
  std::string title{}, y_label{};
  int digits = 3;                    ///< significant digits of the figure above each bar
  double width = 560, height = 380;  ///< grows with the number of bars
  double scale = 2;
};

/// Draws bars side by side per category, e.g. model, persistence and climatology for each field. Fails when a
/// series has not one value per category or there is nothing to draw.
Image draw_bars(const std::vector<std::string>& categories, const std::vector<BarSeries>& series,
                const BarPlotOptions& options = {});

}  // namespace tessera::plot
