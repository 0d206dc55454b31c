#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/plot/image.hpp"
#include "io/plot/ticks.hpp"
#include "parallel/box.hpp"

namespace tessera::plot {

/// A 2-D array to draw, values[row * cols + col]; NaN and infinities are shown grey.
struct Field2D {
  Index rows = 0, cols = 0;
  std::vector<double> values{};
};

struct FieldPanel {
  std::string title{};
  Field2D field{};
};

enum class ColorScale {
  automatic,   ///< diverging when zero lies well inside of the range, else sequential
  sequential,  ///< from the least to the greatest value
  diverging,   ///< symmetric about zero
};

/// Panels that share one colour bar, which stands to the right of the last one.
struct PanelGroup {
  std::vector<FieldPanel> panels{};
  std::string unit{};
  ColorScale scale = ColorScale::automatic;
  std::optional<ValueRange> range{};  ///< default: that of the finite values; others take the end colours
};

/// One line of the figure: a field, or a lead time.
struct FieldRow {
  std::string label{};  ///< written upwards at the left; may be empty
  std::vector<PanelGroup> groups{};
};

/// One axis of the array; lo and hi are the outer edges of its first and last cell (lo > hi: a falling
/// coordinate). Equal values: cell indices.
struct FieldAxis {
  std::string label{};
  double lo = 0, hi = 0;
  TickStyle ticks = TickStyle::decimal;
};

struct FieldPlotOptions {
  std::string title{};
  FieldAxis x{}, y{};                   ///< columns, rows
  std::optional<bool> first_row_top{};  ///< whether row 0 is drawn at the top; default: when y.lo > y.hi
  double panel_size = 330;  ///< longer side of a panel in units of 1/96 inch; the extents give the other side
  double scale = 2;         ///< pixels per unit
};

/// truth | prediction | prediction - truth: the first two share a colour bar, the third one has its own,
/// symmetric about zero, and the root mean square error in its title. The arrays must have the same shape.
FieldRow compare_row(std::string label, std::string unit, Field2D truth, Field2D prediction);

/// Gives the groups at the same place of all rows one range and one map, so that colours compare between
/// rows: lead times of a field.
void share_ranges(std::vector<FieldRow>& rows);

/// The values at both ends of the colour bar of a group.
ValueRange color_range(const PanelGroup& group);
/// Whether a group is drawn with the diverging map.
bool is_diverging(const PanelGroup& group);

/// `field` on another number of rows and columns: an axis with more cells than that is averaged (over finite
/// values), one with fewer cells repeats the nearest cell.
Field2D resample(const Field2D& field, Index rows, Index cols);

/// Draws the rows below each other. Fails when an array's size does not match its shape or there is no panel.
Image draw_fields(const std::vector<FieldRow>& rows, const FieldPlotOptions& options = {});

}  // namespace tessera::plot
