#pragma once

#include <span>
#include <string_view>

#include "io/plot/font.hpp"
#include "io/plot/image.hpp"

namespace tessera::plot {

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

struct Pen {
  Color color = ink;
  double width = 1;
  double opacity = 1;
  std::vector<double> dashes{};  ///< lengths drawn and left out in turn; empty: a full line
};

enum class Align { left, center, right };
enum class VerticalAlign { baseline, top, middle };  ///< top and middle refer to the capitals

struct TextStyle {
  double size = 12;
  bool bold = false;
  Color color = ink;
  Align align = Align::left;
  VerticalAlign vertical = VerticalAlign::baseline;
  bool upwards = false;  ///< turned by 90 degrees: reads from bottom to top
};

/// Width of a line of text in the units of the canvas.
double text_width(std::string_view text, const TextStyle& style);

/// Draws on an Image with smoothed edges. Coordinates and sizes are in units of 1/96 inch, y downwards;
/// `scale` pixels each.
class Canvas {
 public:
  Canvas(double width, double height, double scale, Color background = white);

  double scale() const { return scale_; }
  double width() const { return static_cast<double>(image_.width()) / scale_; }
  double height() const { return static_cast<double>(image_.height()) / scale_; }
  Image& image() { return image_; }
  Image take() && { return std::move(image_); }

  /// The nearest pixel edge, so that frames and cells share sharp borders.
  Index pixel(double position) const;

  void fill(const Rect& area, Color color, double opacity = 1);
  /// A frame of whole pixels just outside of `area`.
  void frame(const Rect& area, Color color = ink);
  /// Sharp horizontal and vertical lines, one logical unit thick.
  void horizontal(double x0, double x1, double y, Color color = ink);
  void vertical(double x, double y0, double y1, Color color = ink);
  /// Coordinates may lie far outside; only what falls within `clip` is drawn. Points that are not finite
  /// break the line.
  void polyline(std::span<const Point> points, const Pen& pen, const Rect& clip);
  void polyline(std::span<const Point> points, const Pen& pen);
  void disc(Point center, double radius, Color color, double opacity = 1);
  void triangle(Point a, Point b, Point c, Color color);
  void text(Point anchor, std::string_view text, const TextStyle& style = {});

 private:
  Rect whole() const { return {0, 0, width(), height()}; }
  void stroke(std::span<const Polyline> lines, const Pen& pen, const Rect& clip);

  Image image_;
  double scale_;
};

}  // namespace tessera::plot
