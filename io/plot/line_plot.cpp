#include "io/plot/line_plot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/plot/axes.hpp"
#include "io/plot/colormap.hpp"
#include "io/plot/legend.hpp"
#include "parallel/error.hpp"

namespace tessera::plot {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double dot_radius = 2.6;

bool usable(double value, bool log) {
  return std::isfinite(value) && (!log || value > 0);
}

// The values' range with a little room, in logarithms on a logarithmic axis.
ValueRange padded(ValueRange range, bool log, double room) {
  if (range.lo > range.hi) return log ? ValueRange{0.1, 1} : ValueRange{0, 1};
  if (!log) {
    range = drawable(range);
    return drawable({range.lo - room * range.width(), range.hi + room * range.width()});
  }
  double lo = std::log10(range.lo), hi = std::log10(range.hi);
  if (hi - lo < 1e-6) lo -= 0.5, hi += 0.5;
  const double extra = room * (hi - lo);
  return {std::pow(10, std::max(lo - extra, -307.0)), std::pow(10, std::min(hi + extra, 308.0))};
}

ValueRange wanted_range(const std::optional<ValueRange>& wanted, const ValueRange& found, bool log,
                        double room) {
  if (!wanted) return padded(found, log, room);
  if (!log) return drawable(*wanted);
  const bool good = usable(wanted->lo, true) && usable(wanted->hi, true) && wanted->lo < wanted->hi;
  return good ? *wanted : padded(found, log, room);
}

Pen pen_of(const Series& series, std::size_t number) {
  const int color = series.color >= 0 ? series.color : static_cast<int>(number);
  Pen pen{line_color(color), series.width, series.opacity, {}};
  if (series.style == LineStyle::dashed) pen.dashes = {7, 4};
  if (series.style == LineStyle::dotted) pen.dashes = {1.5, 3};
  return pen;
}

// Many points in one column of pixels look like their first, lowest, highest and last one.
Polyline thinned(const Polyline& points, double column) {
  if (points.size() < 4096) return points;
  Polyline result;
  for (std::size_t i = 0; i < points.size();) {
    std::size_t end = i + 1, low = i, high = i;
    const double place = std::floor(points[i].x / column);
    while (end < points.size() && std::floor(points[end].x / column) == place) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
      ++end;
    }
    const std::size_t kept[] = {i, std::min(low, high), std::max(low, high), end - 1};
    for (std::size_t k = 0; k < 4; ++k) {
      if (k == 0 || kept[k] != kept[k - 1]) result.push_back(points[kept[k]]);
    }
    i = end;
  }
  return result;
}

class LineFigure {
 public:
  LineFigure(const std::vector<Series>& series, const LinePlotOptions& options)
      : series_(series), options_(options) {
    measure();
  }

  Image draw() const {
    const double inner = options_.width - 2 * margin;
    const TitleBlock title(options_.title, inner);
    const Legend legend(entries(), inner);
    Ticks y_ticks = make_y_ticks(options_.height - title.height() - legend.height() - 80);
    const std::string y_text = axis_text(options_.y_label, y_ticks);

    Rect area;
    area.x = margin + (y_text.empty() ? 0 : 20) + label_width(y_ticks) + tick_room;
    area.y = margin + title.height() + legend.height() + 2;
    area.width = std::max(options_.width - area.x - margin - 6, 60.0);
    const Ticks x_ticks = horizontal_ticks(x_range_, area.width, 10, options_.x_ticks, options_.log_x);
    const std::string x_text = axis_text(options_.x_label, x_ticks);
    const double below = tick_room + tick_size + (x_text.empty() ? 0 : 18) + margin;
    area.height = std::max(options_.height - area.y - below, options_.height / 2);

    Canvas canvas(std::max(options_.width, area.right() + margin), area.bottom() + below, options_.scale);
    title.draw(canvas, margin, margin);
    legend.draw(canvas, margin, margin + title.height());
    const AxisMap x_map{x_range_, area.x, area.right(), options_.log_x};
    const AxisMap y_map{y_range_, area.bottom(), area.y, options_.log_y};
    for (const double v : x_ticks.values) canvas.vertical(x_map(v), area.y, area.bottom(), grid_grey);
    for (const double v : y_ticks.values) canvas.horizontal(area.x, area.right(), y_map(v), grid_grey);
    for (std::size_t i = 0; i < series_.size(); ++i) draw_series(canvas, area, i, x_map, y_map);
    if (!any_) {
      canvas.text({area.x + area.width / 2, area.y + area.height / 2}, "no values to draw",
                  {.size = label_size, .align = Align::center, .vertical = VerticalAlign::middle});
    }
    canvas.frame(area);
    draw_x_ticks(canvas, area, x_map, x_ticks);
    draw_y_ticks(canvas, area, y_map, y_ticks);
    fitted_text(canvas, {area.x + area.width / 2, area.bottom() + tick_room + tick_size + 5}, x_text,
                {.size = label_size, .align = Align::center, .vertical = VerticalAlign::top}, area.width);
    fitted_text(canvas, {margin + 10, area.y + area.height / 2}, y_text,
                {.size = label_size, .align = Align::center, .upwards = true}, area.height + 4);
    return std::move(canvas).take();
  }

 private:
  void measure() {
    ValueRange x{inf, -inf}, y{inf, -inf};
    for (const Series& s : series_) {
      require(s.x.size() == s.y.size(), "plot::draw_lines", "series '{}' has {} x values and {} y values",
              s.label, s.x.size(), s.y.size());
      for (std::size_t i = 0; i < s.x.size(); ++i) {
        if (!usable(s.x[i], options_.log_x) || !usable(s.y[i], options_.log_y)) continue;
        any_ = true;
        x = {std::min(x.lo, s.x[i]), std::max(x.hi, s.x[i])};
        y = {std::min(y.lo, s.y[i]), std::max(y.hi, s.y[i])};
      }
    }
    if (options_.from_zero && any_ && !options_.log_y) y = {std::min(y.lo, 0.0), std::max(y.hi, 0.0)};
    x_range_ = wanted_range(options_.x_range, x, options_.log_x, 0.02);
    y_range_ = wanted_range(options_.y_range, y, options_.log_y, 0.05);
    if (options_.from_zero && !options_.y_range && y.lo == 0 && y.hi > 0) y_range_.lo = 0;
  }

  Ticks make_y_ticks(double height) const {
    const int target = std::clamp(static_cast<int>(height / 38), 2, 9);
    return options_.log_y ? log_ticks(y_range_, target) : linear_ticks(y_range_, target);
  }

  std::vector<LegendEntry> entries() const {
    std::vector<LegendEntry> result;
    for (std::size_t i = 0; i < series_.size(); ++i) {
      const bool line = series_[i].style != LineStyle::none;
      result.push_back({series_[i].label, pen_of(series_[i], i), line, series_[i].markers || !line});
    }
    return result;
  }

  void draw_series(Canvas& canvas, const Rect& area, std::size_t number, const AxisMap& x_map,
                   const AxisMap& y_map) const {
    const Series& s = series_[number];
    const Pen pen = pen_of(s, number);
    Polyline points;
    for (std::size_t i = 0; i < s.x.size(); ++i) {
      const bool good = usable(s.x[i], options_.log_x) && usable(s.y[i], options_.log_y);
      points.push_back(good ? Point{x_map(s.x[i]), y_map(s.y[i])} : Point{nan, nan});
    }
    const auto present = [&points](std::size_t i) { return i < points.size() && std::isfinite(points[i].y); };
    const bool line = s.style != LineStyle::none, dots = s.markers || !line;
    if (line) canvas.polyline(thinned(points, 1 / options_.scale), pen, area);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool alone = !present(i + 1) && (i == 0 || !present(i - 1));
      const Point p = points[i];
      const bool inside = p.x >= area.x && p.x <= area.right() && p.y >= area.y && p.y <= area.bottom();
      if (inside && (dots || alone)) canvas.disc(p, dot_radius, pen.color, pen.opacity);
    }
  }

  const std::vector<Series>& series_;
  const LinePlotOptions& options_;
  ValueRange x_range_, y_range_;
  bool any_ = false;
};

}  // namespace

Image draw_lines(const std::vector<Series>& series, const LinePlotOptions& options) {
  return LineFigure(series, options).draw();
}

}  // namespace tessera::plot
