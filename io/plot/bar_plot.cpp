#include <algorithm>
#include <cmath>

#include "io/plot/axes.hpp"
#include "io/plot/colormap.hpp"
#include "io/plot/legend.hpp"
#include "io/plot/line_plot.hpp"
#include "parallel/error.hpp"

namespace tessera::plot {
namespace {

constexpr double figure_size = 10.5;  // text above the bars

// A range from or to zero with room for the figures beyond the bars.
ValueRange bar_range(const std::vector<BarSeries>& series) {
  ValueRange range{0, 0};
  for (const BarSeries& s : series) {
    for (const double v : s.values) {
      if (!std::isfinite(v)) continue;
      range.lo = std::min(range.lo, v);
      range.hi = std::max(range.hi, v);
    }
  }
  if (range.lo == range.hi) return {0, 1};
  const double room = 0.1 * range.width();
  return drawable({range.lo < 0 ? range.lo - room : 0, range.hi > 0 ? range.hi + room : 0});
}

void draw_bar(Canvas& canvas, const Rect& area, const AxisMap& map, double x, double width, double value,
              Color color, int digits) {
  const double zero = map(0);
  const bool known = std::isfinite(value);
  const double end = known ? std::clamp(map(value), area.y, area.bottom()) : zero;
  canvas.fill({x, std::min(end, zero), width, std::abs(end - zero)}, color);
  const bool down = known && value < 0;
  canvas.text({x + width / 2, down ? end + 4 : end - 4}, known ? short_number(value, digits) : "n/a",
              {.size = figure_size,
               .align = Align::center,
               .vertical = down ? VerticalAlign::top : VerticalAlign::baseline});
}

double widest_figure(const std::vector<BarSeries>& series, int digits) {
  double width = text_width("n/a", TextStyle{.size = figure_size});
  for (const BarSeries& s : series) {
    for (const double v : s.values) {
      width = std::max(width, text_width(short_number(v, digits), TextStyle{.size = figure_size}));
    }
  }
  return width;
}

}  // namespace

Image draw_bars(const std::vector<std::string>& categories, const std::vector<BarSeries>& series,
                const BarPlotOptions& options) {
  require(!categories.empty() && !series.empty(), "plot::draw_bars", "there is nothing to draw");
  for (const BarSeries& s : series) {
    require(s.values.size() == categories.size(), "plot::draw_bars",
            "series '{}' has {} values for {} categories", s.label, s.values.size(), categories.size());
  }
  const ValueRange range = bar_range(series);
  const Ticks ticks = linear_ticks(range, std::clamp(static_cast<int>((options.height - 90) / 38), 2, 8));
  const std::string y_text = axis_text(options.y_label, ticks);

  // One slot per category: its bars and a gap of one bar; a bar is no narrower than its figure.
  const double bars = static_cast<double>(series.size()), slots = static_cast<double>(categories.size());
  const double left = margin + (y_text.empty() ? 0 : 20) + label_width(ticks) + tick_room;
  const double least = std::max(widest_figure(series, options.digits) + 5, 18.0) * (bars + 1) * slots;
  const double width = std::max(options.width, left + least + margin);
  const TitleBlock title(options.title, width - 2 * margin);
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < series.size(); ++i) {
    entries.push_back({series[i].label, {line_color(static_cast<int>(i)), 1, 1, {}}, false, false});
  }
  const Legend legend(std::move(entries), width - 2 * margin);

  const double below = tick_room + label_size + margin;
  const double top = margin + title.height() + legend.height() + 2;
  const Rect area{left, top, width - left - margin,
                  std::max(options.height - top - below, options.height / 2)};
  Canvas canvas(width, area.bottom() + below, options.scale);
  title.draw(canvas, margin, margin);
  legend.draw(canvas, margin, margin + title.height());
  const AxisMap map{range, area.bottom(), area.y};
  for (const double v : ticks.values) canvas.horizontal(area.x, area.right(), map(v), grid_grey);
  const double slot = area.width / slots, bar = slot / (bars + 1);
  for (std::size_t c = 0; c < categories.size(); ++c) {
    const double start = area.x + slot * static_cast<double>(c);
    for (std::size_t i = 0; i < series.size(); ++i) {
      const double x = start + bar * (static_cast<double>(i) + 0.5);
      draw_bar(canvas, area, map, x + 1, bar - 2, series[i].values[c], line_color(static_cast<int>(i)),
               options.digits);
    }
    fitted_text(canvas, {start + slot / 2, area.bottom() + tick_room}, categories[c],
                {.size = label_size, .align = Align::center, .vertical = VerticalAlign::top}, slot - 6);
  }
  canvas.horizontal(area.x, area.right(), map(0));
  canvas.frame(area);
  draw_y_ticks(canvas, area, map, ticks);
  fitted_text(canvas, {margin + 10, area.y + area.height / 2}, y_text,
              {.size = label_size, .align = Align::center, .upwards = true}, area.height + 4);
  return std::move(canvas).take();
}

}  // namespace tessera::plot
