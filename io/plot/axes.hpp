#pragma once

#include <string>

#include "io/plot/canvas.hpp"
#include "io/plot/ticks.hpp"

namespace tessera::plot {

inline constexpr double tick_size = 11;   ///< text beside ticks
inline constexpr double label_size = 12;  ///< axis labels, legends
inline constexpr double title_size = 15;  ///< title of the figure
inline constexpr double tick_length = 4;
inline constexpr double tick_room = tick_length + 3;  ///< from the frame to the text of a tick
inline constexpr double margin = 14;                  ///< around the figure

/// Maps values to places along a side of the plot area: `from` (the value range's lo) to `to`, in canvas
/// units.
struct AxisMap {
  ValueRange range;
  double from = 0, to = 1;
  bool log = false;

  double operator()(double value) const;
};

/// Width of the widest label in canvas units; 0 without labels.
double label_width(const Ticks& ticks, double size = tick_size);

/// As many ticks as fit beside each other along `length` without touching, but at most `target`.
Ticks horizontal_ticks(ValueRange range, double length, int target, TickStyle style, bool log = false);

/// Tick marks outwards from the lower side of `area` and, where wanted, their labels.
void draw_x_ticks(Canvas& canvas, const Rect& area, const AxisMap& map, const Ticks& ticks,
                  bool labels = true);
/// Tick marks outwards from the left side of `area` and, where wanted, their labels.
void draw_y_ticks(Canvas& canvas, const Rect& area, const AxisMap& map, const Ticks& ticks,
                  bool labels = true);

/// An axis label with the factor of its ticks: "energy (J)" becomes "energy (×10⁻⁶ J)".
std::string axis_text(const std::string& label, const Ticks& ticks);

/// A line of text made to fit `room`: smaller first (to four fifths of its size), then cut in its middle.
void fitted_text(Canvas& canvas, Point anchor, std::string_view text, TextStyle style, double room);

/// The figure's title, broken into lines that fit `width`.
class TitleBlock {
 public:
  TitleBlock(std::string_view title, double width);

  double height() const;  ///< including the space below; 0 without a title
  void draw(Canvas& canvas, double x, double y) const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace tessera::plot
