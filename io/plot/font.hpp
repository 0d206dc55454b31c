#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::plot {

struct Point {
  double x = 0, y = 0;
};

using Polyline = std::vector<Point>;

/// A letter of the stroke font: pen strokes in em units, y upwards, origin on the baseline at the left.
struct Glyph {
  std::vector<Polyline> strokes;
  double advance = 0;  ///< distance to the next letter's origin
};

/// Heights of the font as parts of the em.
inline constexpr double cap_height = 0.72;
inline constexpr double x_height = cap_height * 10 / 14;
inline constexpr double descender = cap_height * 4.2 / 14;
inline constexpr double pen_width = cap_height * 1.55 / 14;
inline constexpr double bold_pen_width = cap_height * 2.3 / 14;

/// The letter of a Unicode code point: printable ASCII, degree, minus, dashes, times, plus-minus, superscript
/// digits and signs, micro, Delta, sigma, theta and a few more; an empty box for any other.
const Glyph& glyph(char32_t code);

/// Code points of a UTF-8 text; a malformed byte becomes U+FFFD.
std::u32string decode_utf8(std::string_view text);

/// Width of a line of text in em units.
double text_width(std::string_view text, bool bold = false);

/// Breaks a text at spaces into lines of at most `width` em; a longer word is broken where it must be.
std::vector<std::string> wrap_text(std::string_view text, double width, bool bold = false);

/// The text itself when it fits `width` em, else cut in its middle with an ellipsis.
std::string shorten_text(std::string_view text, double width, bool bold = false);

}  // namespace tessera::plot
