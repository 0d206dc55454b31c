#include "io/plot/colormap.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

namespace tessera::plot {
namespace {

struct LinearRgb {
  double r, g, b;

  bool in_gamut() const {
    const double slack = 1e-6;
    return std::min({r, g, b}) >= -slack && std::max({r, g, b}) <= 1 + slack;
  }
};

// Matrices of the Oklab definition: linear sRGB <-> cone responses (cube-rooted) <-> Oklab.
LinearRgb to_linear(const Oklab& c) {
  const double l_ = c.l + 0.3963377774 * c.a + 0.2158037573 * c.b;
  const double m_ = c.l - 0.1055613458 * c.a - 0.0638541728 * c.b;
  const double s_ = c.l - 0.0894841775 * c.a - 1.2914855480 * c.b;
  const double l = l_ * l_ * l_, m = m_ * m_ * m_, s = s_ * s_ * s_;
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

std::uint8_t encode_channel(double linear) {
  const double v = std::clamp(linear, 0.0, 1.0);
  const double s = v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(255 * s));
}

double decode_channel(std::uint8_t channel) {
  const double s = channel / 255.0;
  return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
}

double largest_chroma(double lightness, double hue) {
  double inside = 0, outside = 0.4;
  for (int i = 0; i < 40; ++i) {
    const double middle = (inside + outside) / 2;
    (to_linear(from_lch(lightness, middle, hue)).in_gamut() ? inside : outside) = middle;
  }
  return inside;
}

double distance(const Oklab& p, const Oklab& q) {
  return std::hypot(p.l - q.l, p.a - q.a, p.b - q.b);
}

// `count` points at equal distances along a finely sampled curve.
std::vector<Oklab> equidistant(std::span<const Oklab> curve, int count) {
  std::vector<double> length(curve.size(), 0.0);
  for (std::size_t i = 1; i < curve.size(); ++i) length[i] = length[i - 1] + distance(curve[i - 1], curve[i]);
  std::vector<Oklab> points;
  std::size_t i = 1;
  for (int k = 0; k < count; ++k) {
    const double target = length.back() * k / (count - 1);
    while (i + 1 < curve.size() && length[i] < target) ++i;
    const double f = (target - length[i - 1]) / (length[i] - length[i - 1]);
    const Oklab &p = curve[i - 1], &q = curve[i];
    points.push_back({std::lerp(p.l, q.l, f), std::lerp(p.a, q.a, f), std::lerp(p.b, q.b, f)});
  }
  return points;
}

std::array<Color, Colormap::levels> to_table(std::span<const Oklab> points) {
  std::array<Color, Colormap::levels> table{};
  std::transform(points.begin(), points.end(), table.begin(), to_color);
  return table;
}

// A smooth curve nowhere above `limit`: the least value near each point, then the mean over the same
// neighbourhood.
std::vector<double> smooth_below(const std::vector<double>& limit, int reach) {
  const auto n = static_cast<int>(limit.size());
  const auto filtered = [&](const std::vector<double>& in, auto combine) {
    std::vector<double> out;
    for (int i = 0; i < n; ++i) {
      const auto first = in.begin() + std::max(i - reach, 0), last = in.begin() + std::min(i + reach + 1, n);
      out.push_back(combine(first, last));
    }
    return out;
  };
  const auto least = [](auto first, auto last) { return *std::min_element(first, last); };
  const auto mean = [](auto first, auto last) {
    return std::accumulate(first, last, 0.0) / static_cast<double>(last - first);
  };
  return filtered(filtered(limit, least), mean);
}

// Lightness and hue run evenly from (0.21, 300 degrees) to (0.94, 102 degrees); chroma is what the gamut
// allows.
std::array<Color, Colormap::levels> sequential_table() {
  const int samples = 1024;
  const auto lightness = [](double t) { return std::lerp(0.21, 0.94, t); };
  const auto hue = [](double t) { return std::lerp(300.0, 102.0, t); };
  std::vector<double> limit;
  for (int i = 0; i <= samples; ++i) {
    const double t = static_cast<double>(i) / samples;
    limit.push_back(std::min(0.17, 0.99 * largest_chroma(lightness(t), hue(t))));
  }
  const std::vector<double> chroma = smooth_below(limit, samples / 10);
  std::vector<Oklab> curve;
  for (int i = 0; i <= samples; ++i) {
    const double t = static_cast<double>(i) / samples;
    curve.push_back(from_lch(lightness(t), chroma[static_cast<std::size_t>(i)], hue(t)));
  }
  return to_table(equidistant(curve, Colormap::levels));
}

std::array<Color, Colormap::levels> diverging_table() {
  const double blue = 254, red = 28;
  const int samples = 1024;
  const auto lightness = [](double s) {
    return std::lerp(0.97, 0.38, s);
  };  // s runs from the middle to an end
  std::vector<double> limit;
  for (int i = 0; i <= samples; ++i) {
    const double s = static_cast<double>(i) / samples;
    const double gamut = std::min(largest_chroma(lightness(s), blue), largest_chroma(lightness(s), red));
    limit.push_back(std::min(0.32 * s, 0.99 * gamut));
  }
  std::vector<double> chroma = smooth_below(limit, samples / 8);
  const double middle = chroma.front();
  std::vector<Oklab> blue_arm, red_arm;
  for (int i = 0; i <= samples; ++i) {
    const double s = static_cast<double>(i) / samples,
                 c = chroma[static_cast<std::size_t>(i)] - middle * (1 - s);
    blue_arm.push_back(from_lch(lightness(s), c, blue));
    red_arm.push_back(from_lch(lightness(s), c, red));
  }
  // Both arms have the same lightness and chroma, so that equal distances along them stay mirror images. An
  // even table has no middle entry: entries half a step either side of it stand for zero.
  const int half = Colormap::levels / 2;
  const auto left = equidistant(blue_arm, Colormap::levels), right = equidistant(red_arm, Colormap::levels);
  std::array<Color, Colormap::levels> table{};
  for (int i = 0; i < half; ++i) {
    const auto from_middle = static_cast<std::size_t>(2 * i + 1);
    table[static_cast<std::size_t>(half - 1 - i)] = to_color(left[from_middle]);
    table[static_cast<std::size_t>(half + i)] = to_color(right[from_middle]);
  }
  return table;
}

}  // namespace

Oklab from_lch(double lightness, double chroma, double hue) {
  const double angle = hue * std::numbers::pi / 180;
  return {lightness, chroma * std::cos(angle), chroma * std::sin(angle)};
}

Color to_color(const Oklab& lab) {
  Oklab shown = lab;
  if (!to_linear(lab).in_gamut()) {
    const double hue = std::atan2(lab.b, lab.a) * 180 / std::numbers::pi;
    const double lightness = std::clamp(lab.l, 0.0, 1.0);
    shown = from_lch(lightness, std::min(std::hypot(lab.a, lab.b), largest_chroma(lightness, hue)), hue);
  }
  const LinearRgb rgb = to_linear(shown);
  return {encode_channel(rgb.r), encode_channel(rgb.g), encode_channel(rgb.b)};
}

Oklab to_oklab(Color color) {
  const double r = decode_channel(color.r), g = decode_channel(color.g), b = decode_channel(color.b);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

const Colormap& Colormap::sequential() {
  static const Colormap map(sequential_table());
  return map;
}

const Colormap& Colormap::diverging() {
  static const Colormap map(diverging_table());
  return map;
}

Color Colormap::operator()(double t) const {
  if (std::isnan(t)) return missing;
  const int i = static_cast<int>(std::clamp(t, 0.0, 1.0) * levels);
  return level(std::min(i, levels - 1));
}

Color line_color(int i) {
  struct Lch {
    double l, c, h;
  };
  // Neighbours differ in lightness as well as in hue.
  static constexpr std::array<Lch, 8> palette{{{0.50, 0.16, 255},
                                               {0.68, 0.17, 55},
                                               {0.58, 0.13, 160},
                                               {0.52, 0.20, 18},
                                               {0.48, 0.18, 305},
                                               {0.72, 0.13, 215},
                                               {0.46, 0.08, 75},
                                               {0.74, 0.15, 345}}};
  const Lch& c = palette[static_cast<std::size_t>(i % 8 + (i < 0 ? 8 : 0)) % 8];
  return to_color(from_lch(c.l, c.c, c.h));
}

}  // namespace tessera::plot
