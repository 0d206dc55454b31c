#pragma once

#include <array>

#include "io/plot/image.hpp"

namespace tessera::plot {

/// A colour in Oklab, a space in which equal distances look about equally different: lightness in [0, 1] and
/// two opponent axes (green-red, blue-yellow). Björn Ottosson, "A perceptual color space for image
/// processing", 2020.
struct Oklab {
  double l = 0, a = 0, b = 0;
};

/// Lightness, chroma and hue (degrees) in Oklab, as a point of that space.
Oklab from_lch(double lightness, double chroma, double hue);

/// The nearest sRGB colour; a colour outside of the gamut keeps lightness and hue and loses chroma.
Color to_color(const Oklab& lab);
Oklab to_oklab(Color color);

/// A map from [0, 1] to colours, held as a table.
class Colormap {
 public:
  static constexpr int levels = 256;

  /// Dark violet over teal to light yellow: lightness rises monotonically, equal steps are equal distances in
  /// Oklab.
  static const Colormap& sequential();
  /// Blue over near-white to red: lightness and chroma are mirror images about the middle.
  static const Colormap& diverging();

  /// Values below 0 and above 1 take the end colours, NaN takes `missing`.
  Color operator()(double t) const;
  Color level(int i) const { return table_[static_cast<std::size_t>(i)]; }

 private:
  explicit Colormap(const std::array<Color, levels>& table) : table_(table) {}

  std::array<Color, levels> table_{};
};

/// Distinct colours for lines and bars, readable with the common colour vision deficiencies; repeats after 8.
Color line_color(int i);

}  // namespace tessera::plot
