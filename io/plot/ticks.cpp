#include "io/plot/ticks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace tessera::plot {
namespace {

constexpr double largest = 8e307;  // the difference of two such values is still finite

const char* const minus = "\u2212";

std::string with_minus(std::string text) {
  if (!text.empty() && text[0] == '-') text.replace(0, 1, minus);
  return text;
}

double power(int exponent) {
  return std::pow(10.0, exponent);
}

int decade(double value) {
  return static_cast<int>(std::floor(std::log10(value)));
}

// The least round step that gives at most `target` intervals.
double nice_step(double width, int target, TickStyle style) {
  const double raw = width / std::max(target, 1);
  if (style == TickStyle::degrees && raw > 0.5 && raw <= 90) {
    for (const double step : {1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 90.0}) {
      if (step >= raw * (1 - 1e-9)) return step;
    }
  }
  if (style == TickStyle::whole && raw <= 1) return 1;
  const double base = power(decade(raw));
  for (const double m : {1.0, 2.0, 2.5, 5.0}) {
    const bool whole = m != 2.5 || base > 1.5;
    if (m * base >= raw * (1 - 1e-9) && (style != TickStyle::whole || whole)) return m * base;
  }
  return 10 * base;
}

// Decimals needed to write multiples of `step`.
int decimals(double step) {
  for (int d = 0; d < 15; ++d) {
    const double scaled = step * power(d);
    if (std::abs(scaled - std::round(scaled)) < 1e-6 * scaled) return d;
  }
  return 15;
}

// Labels such as 0.001 or 101325.25 are long: they are shortened by a common power of ten and a common
// addend.
void set_labels(Ticks& ticks, double step) {
  double size = 0;
  for (const double v : ticks.values) size = std::max(size, std::abs(v));
  double offset = 0;
  if (size > 0 && ticks.values.size() > 1 && step < 2e-5 * size) {
    offset = ticks.values.front();
    size = ticks.values.back() - offset;
  }
  const int exponent = size > 0 ? decade(size * (1 + 1e-9)) : 0;
  const bool scaled = exponent < -3 || exponent > 5;
  const double factor = scaled ? power(exponent) : 1;
  const int digits = decimals(step / factor);
  for (const double v : ticks.values) {
    double shown = (v - offset) / factor;
    if (std::abs(v - offset) < 1e-6 * step) shown = 0;
    ticks.labels.push_back(with_minus(fmt::format("{:.{}f}", shown, digits)));
  }
  if (scaled) ticks.factor = power_of_ten(exponent);
  if (offset != 0)
    ticks.factor +=
        fmt::format("{}{} {:.12g}", scaled ? " " : "", offset < 0 ? minus : "+", std::abs(offset));
}

}  // namespace

ValueRange drawable(ValueRange range) {
  if (!std::isfinite(range.lo) && !std::isfinite(range.hi)) return {0, 1};
  if (!std::isfinite(range.lo)) range.lo = range.hi;
  if (!std::isfinite(range.hi)) range.hi = range.lo;
  if (range.lo > range.hi) std::swap(range.lo, range.hi);
  range = {std::clamp(range.lo, -largest, largest), std::clamp(range.hi, -largest, largest)};
  const double size = std::max(std::abs(range.lo), std::abs(range.hi));
  if (size < 1e-300) return {-1, 1};
  if (range.width() > 1e-9 * size) return range;
  const double room = 0.05 * size;
  return {std::max(range.lo - room, -largest), std::min(range.hi + room, largest)};
}

Ticks linear_ticks(ValueRange range, int target, TickStyle style) {
  range = drawable(range);
  const double step = nice_step(range.width(), target, style);
  const double slack = 1e-6;
  const double first = std::ceil(range.lo / step - slack), last = std::floor(range.hi / step + slack);
  Ticks ticks;
  for (double k = first; k <= last; k += 1) {
    ticks.values.push_back(std::clamp(k == 0 ? 0.0 : k * step, range.lo, range.hi));
  }
  set_labels(ticks, step);
  return ticks;
}

Ticks log_ticks(ValueRange range, int target) {
  const double least = std::numeric_limits<double>::min();
  range = {std::clamp(range.lo, least, 1e308), std::clamp(range.hi, least, 1e308)};
  const double slack = 1e-9;
  const double lo = std::log10(range.lo) - slack, hi = std::log10(range.hi) + slack;
  const int first = static_cast<int>(std::ceil(lo)), last = static_cast<int>(std::floor(hi));
  const int stride = std::max(1, (last - first) / std::max(target, 1) + 1);
  const bool plain = last - first < 2 && first >= -3 && last <= 4;  // 0.02 reads better than 2e-2 there
  const auto multiples = last - first + 1 >= 3 ? std::vector<int>{1} : std::vector<int>{1, 2, 5};
  Ticks ticks;
  for (int e = first - 1; e <= last; ++e) {
    for (int m = 1; m <= 9; ++m) {
      const double position = e + std::log10(m);
      if (position < lo || position > hi || e < -307) continue;
      const bool labelled =
          std::find(multiples.begin(), multiples.end(), m) != multiples.end() && e % stride == 0;
      const double value = m * power(e);
      if (labelled) {
        ticks.values.push_back(value);
        ticks.labels.push_back(plain || e == 0 ? fmt::format("{:g}", value) : fmt::format("{}e{}", m, e));
      } else if (stride == 1 || m == 1) {
        ticks.minor.push_back(value);
      }
    }
  }
  if (ticks.values.size() < 2) {  // less than a factor of two: round steps as on a linear axis
    ticks = linear_ticks(range, std::min(target, 4));
  }
  return ticks;
}

std::string short_number(double value, int digits) {
  if (!std::isfinite(value))
    return std::isnan(value) ? "NaN" : value > 0 ? "inf" : std::string(minus) + "inf";
  std::string text = fmt::format("{:.{}g}", value, digits);
  if (const auto e = text.find('e'); e != std::string::npos) {
    const std::string mantissa = text.substr(0, e);
    text = fmt::format("{}e{}", mantissa, std::stoi(text.substr(e + 1)));
  }
  return with_minus(text);
}

std::string power_of_ten(int exponent) {
  static constexpr std::array digits{"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                     "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
  std::string text = exponent < 0 ? "\u00d710\u207b" : "\u00d710";
  for (const char c : std::to_string(std::abs(exponent))) text += digits[static_cast<std::size_t>(c - '0')];
  return text;
}

}  // namespace tessera::plot
