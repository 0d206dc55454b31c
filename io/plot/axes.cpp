#include "io/plot/axes.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::plot {
namespace {

constexpr double title_line = title_size * 1.35;

bool labels_fit(const Ticks& ticks, const AxisMap& map) {
  const double space = 9;
  double end = -1e300;
  for (std::size_t i = 0; i < ticks.values.size(); ++i) {
    const double half = text_width(ticks.labels[i], TextStyle{.size = tick_size}) / 2;
    const double at = map(ticks.values[i]);
    if (at - half < end + space) return false;
    end = at + half;
  }
  return true;
}

}  // namespace

double AxisMap::operator()(double value) const {
  double t = 0;
  if (log) {
    t = (std::log10(value) - std::log10(range.lo)) / (std::log10(range.hi) - std::log10(range.lo));
  } else {
    t = range.fraction(value);
  }
  return from + t * (to - from);
}

double label_width(const Ticks& ticks, double size) {
  double width = 0;
  for (const std::string& label : ticks.labels)
    width = std::max(width, text_width(label, TextStyle{.size = size}));
  return width;
}

Ticks horizontal_ticks(ValueRange range, double length, int target, TickStyle style, bool log) {
  const AxisMap map{range, 0, length, log};
  Ticks ticks;
  for (; target >= 1; --target) {
    ticks = log ? log_ticks(range, target) : linear_ticks(range, target, style);
    if (labels_fit(ticks, map)) break;
  }
  return ticks;
}

void draw_x_ticks(Canvas& canvas, const Rect& area, const AxisMap& map, const Ticks& ticks, bool labels) {
  const double y = area.bottom() + 1;
  for (const double v : ticks.minor) canvas.vertical(map(v), y, y + tick_length / 2);
  for (std::size_t i = 0; i < ticks.values.size(); ++i) {
    const double x = map(ticks.values[i]);
    canvas.vertical(x, y, y + tick_length);
    if (!labels) continue;
    canvas.text({x, area.bottom() + tick_room}, ticks.labels[i],
                {.size = tick_size, .align = Align::center, .vertical = VerticalAlign::top});
  }
}

void draw_y_ticks(Canvas& canvas, const Rect& area, const AxisMap& map, const Ticks& ticks, bool labels) {
  const double x = area.x - 1;
  for (const double v : ticks.minor) canvas.horizontal(x - tick_length / 2, x, map(v));
  for (std::size_t i = 0; i < ticks.values.size(); ++i) {
    const double y = map(ticks.values[i]);
    canvas.horizontal(x - tick_length, x, y);
    if (!labels) continue;
    canvas.text({area.x - tick_room, y}, ticks.labels[i],
                {.size = tick_size, .align = Align::right, .vertical = VerticalAlign::middle});
  }
}

std::string axis_text(const std::string& label, const Ticks& ticks) {
  if (ticks.factor.empty() || label.empty()) return label + ticks.factor;
  const std::size_t unit = label.rfind('(');
  if (unit == std::string::npos || label.back() != ')') return label + " (" + ticks.factor + ")";
  return label.substr(0, unit + 1) + ticks.factor + " " + label.substr(unit + 1);
}

void fitted_text(Canvas& canvas, Point anchor, std::string_view text, TextStyle style, double room) {
  const double wanted = text_width(text, style);
  if (wanted > room) style.size *= std::max(room / wanted, 0.8);
  canvas.text(anchor, shorten_text(text, room / style.size, style.bold), style);
}

TitleBlock::TitleBlock(std::string_view title, double width)
    : lines_(wrap_text(title, width / title_size, true)) {}

double TitleBlock::height() const {
  return lines_.empty() ? 0 : title_line * static_cast<double>(lines_.size()) + 6;
}

void TitleBlock::draw(Canvas& canvas, double x, double y) const {
  for (const std::string& line : lines_) {
    canvas.text({x, y}, line, {.size = title_size, .bold = true, .vertical = VerticalAlign::top});
    y += title_line;
  }
}

}  // namespace tessera::plot
