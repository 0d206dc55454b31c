#include "io/plot/field_plot.hpp"

#include <algorithm>
#include <cmath>

#include "io/plot/axes.hpp"
#include "io/plot/colormap.hpp"
#include "parallel/error.hpp"

namespace tessera::plot {
namespace {

constexpr double bar_gap = 8, bar_width = 12, arrow = 8;
constexpr double row_gap = 12, group_gap = 20;
constexpr double least_pitch = 110;  // from panel to panel, so that narrow ones have room for their titles
constexpr double panel_title_size = 12, panel_title_room = 21;
constexpr double text_line = 18;  // an axis label, or a unit beside a colour bar

// What is drawn right of a group of panels.
struct ColorBar {
  ValueRange range;
  const Colormap* map = nullptr;
  Ticks ticks;
  std::string text;
  bool below = false, above = false;  // whether there are values beyond the range

  double text_room() const { return text.empty() ? 0 : text_line + 2; }
};

ColorBar make_bar(const PanelGroup& group, double height) {
  ColorBar bar;
  bar.range = color_range(group);
  bar.map = is_diverging(group) ? &Colormap::diverging() : &Colormap::sequential();
  int target = std::clamp(static_cast<int>(height / 30), 2, 8);
  do {
    bar.ticks = linear_ticks(bar.range, target++);
  } while (bar.ticks.values.size() < 3 && target < 6);
  bar.text = bar.ticks.factor;
  if (!group.unit.empty()) bar.text += (bar.text.empty() ? "" : " ") + group.unit;
  for (const FieldPanel& panel : group.panels) {
    for (const double v : panel.field.values) {
      bar.below |= std::isfinite(v) && v < bar.range.lo;
      bar.above |= std::isfinite(v) && v > bar.range.hi;
    }
  }
  return bar;
}

// `labels` is the room for the tick labels, the same for all bars below each other.
void draw_bar(Canvas& canvas, const ColorBar& bar, double x, double y, double height, double labels) {
  const double top = y + (bar.above ? arrow : 0), end = y + height - (bar.below ? arrow : 0);
  const Rect area{x + bar_gap, top, bar_width, end - top};
  if (bar.above) {
    const Color color = (*bar.map)(1);
    canvas.triangle({area.x - 1, top - 1}, {area.right() + 1, top - 1}, {area.x + bar_width / 2, y}, color);
  }
  if (bar.below) {
    const Color color = (*bar.map)(0);
    canvas.triangle({area.x - 1, end + 1}, {area.right() + 1, end + 1}, {area.x + bar_width / 2, y + height},
                    color);
  }
  const Index first = canvas.pixel(area.y), last = canvas.pixel(area.bottom());
  for (Index row = first; row < last; ++row) {
    const double t = (static_cast<double>(last - row) - 0.5) / static_cast<double>(last - first);
    for (Index col = canvas.pixel(area.x); col < canvas.pixel(area.right()); ++col) {
      canvas.image().at(col, row) = (*bar.map)(t);
    }
  }
  canvas.frame(area);
  const AxisMap place{bar.range, area.bottom(), area.y};
  for (std::size_t i = 0; i < bar.ticks.values.size(); ++i) {
    const double at = place(bar.ticks.values[i]);
    canvas.horizontal(area.right() + 1, area.right() + 1 + tick_length, at);
    canvas.text({area.right() + tick_room, at}, bar.ticks.labels[i],
                {.size = tick_size, .vertical = VerticalAlign::middle});
  }
  const double text_x = area.right() + tick_room + labels + text_line - 3;
  fitted_text(canvas, {text_x, y + height / 2}, bar.text,
              {.size = label_size, .align = Align::center, .upwards = true}, height + 10);
}

void draw_cells(Canvas& canvas, const Rect& area, const Field2D& field, const ColorBar& bar,
                bool first_row_top) {
  canvas.fill(area, missing);
  const Index x0 = canvas.pixel(area.x), y0 = canvas.pixel(area.y);
  const Index width = canvas.pixel(area.right()) - x0, height = canvas.pixel(area.bottom()) - y0;
  const bool any =
      std::any_of(field.values.begin(), field.values.end(), [](double v) { return std::isfinite(v); });
  if (!any) {
    canvas.text({area.x + area.width / 2, area.y + area.height / 2}, "no finite values",
                {.size = label_size, .align = Align::center, .vertical = VerticalAlign::middle});
    return;
  }
  const Field2D shown = resample(field, height, width);
  for (Index y = 0; y < height; ++y) {
    const Index row = first_row_top ? y : height - 1 - y;
    for (Index x = 0; x < width; ++x) {
      const double v = shown.values[static_cast<std::size_t>(row * width + x)];
      canvas.image().at(x0 + x, y0 + y) = (*bar.map)(bar.range.fraction(v));
    }
  }
}

// Where everything goes.
class FieldFigure {
 public:
  FieldFigure(const std::vector<FieldRow>& rows, const FieldPlotOptions& options)
      : rows_(rows), options_(options) {
    check();
    set_axes();
    set_columns();
  }

  Image draw() const {
    const double title_width = std::max(width_, 280.0) - 2 * margin;
    const TitleBlock title(options_.title, title_width);
    const double row_height = panel_title_room + panel_height_ + row_gap;
    const double below = tick_room + tick_size + (x_text().empty() ? 0 : text_line);
    const double top = margin + title.height();
    const double count = static_cast<double>(rows_.size());
    Canvas canvas(title_width + 2 * margin, top + row_height * count - row_gap + below + margin,
                  options_.scale);
    title.draw(canvas, margin, margin);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      draw_row(canvas, r, top + row_height * static_cast<double>(r) + panel_title_room);
    }
    return std::move(canvas).take();
  }

 private:
  struct Column {       // one group of panels, of all rows
    double x = 0;       // left side of the first panel
    double bar_x = 0;   // right side of the last panel
    double labels = 0;  // width of the labels of the colour bars
  };

  void check() const {
    bool any = false;
    for (const FieldRow& row : rows_) {
      for (const PanelGroup& group : row.groups) {
        for (const FieldPanel& panel : group.panels) {
          const Field2D& f = panel.field;
          any = true;
          require(f.rows >= 0 && f.cols >= 0 && static_cast<Index>(f.values.size()) == f.rows * f.cols,
                  "plot::draw_fields", "the array of '{}' has {} values, its shape {} x {} says {}",
                  panel.title, f.values.size(), f.rows, f.cols, f.rows * f.cols);
        }
      }
    }
    require(any, "plot::draw_fields", "there is no panel to draw");
  }

  void set_axes() {
    x_ = options_.x;
    y_ = options_.y;
    for (const FieldRow& row : rows_) {
      for (const PanelGroup& group : row.groups) {
        for (const FieldPanel& panel : group.panels) {
          if (options_.x.lo == options_.x.hi)
            x_.hi = std::max(x_.hi, x_.lo + static_cast<double>(panel.field.cols));
          if (options_.y.lo == options_.y.hi)
            y_.hi = std::max(y_.hi, y_.lo + static_cast<double>(panel.field.rows));
        }
      }
    }
    x_range_ = drawable({std::min(x_.lo, x_.hi), std::max(x_.lo, x_.hi)});
    y_range_ = drawable({std::min(y_.lo, y_.hi), std::max(y_.lo, y_.hi)});
    const double aspect = std::clamp(x_range_.width() / y_range_.width(), 0.2, 5.0);
    panel_width_ = aspect >= 1 ? options_.panel_size : options_.panel_size * aspect;
    panel_height_ = aspect >= 1 ? options_.panel_size / aspect : options_.panel_size;
    top_ = options_.first_row_top.value_or(y_.lo > y_.hi);
    x_ticks_ = horizontal_ticks(x_range_, panel_width_, 7, x_.ticks);
    y_ticks_ = linear_ticks(y_range_, std::clamp(static_cast<int>(panel_height_ / 32), 2, 7), y_.ticks);
  }

  void set_columns() {
    bars_.resize(rows_.size());
    std::size_t columns = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (const PanelGroup& group : rows_[r].groups) bars_[r].push_back(make_bar(group, panel_height_));
      columns = std::max(columns, rows_[r].groups.size());
    }
    const bool labelled =
        std::any_of(rows_.begin(), rows_.end(), [](const FieldRow& r) { return !r.label.empty(); });
    left_ = margin + (labelled ? text_line + 6 : 0);
    double x = left_ + (y_text().empty() ? 0 : text_line) + label_width(y_ticks_) + tick_room;
    panel_gap_ = std::max({18.0, label_width(x_ticks_) + 10, least_pitch - panel_width_});
    for (std::size_t g = 0; g < columns; ++g) {
      double panels = 0, labels = 0, text = 0;
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        if (g >= rows_[r].groups.size()) continue;
        panels = std::max(panels, static_cast<double>(rows_[r].groups[g].panels.size()));
        labels = std::max(labels, label_width(bars_[r][g].ticks));
        text = std::max(text, bars_[r][g].text_room());
      }
      const double end = x + panels * (panel_width_ + panel_gap_) - panel_gap_;
      columns_.push_back({x, end, labels});
      x = end + bar_gap + bar_width + tick_room + labels + text + group_gap;
    }
    width_ = x - group_gap + margin;
  }

  std::string x_text() const { return axis_text(x_.label, x_ticks_); }
  std::string y_text() const { return axis_text(y_.label, y_ticks_); }

  // Whether a lower row has a panel at this place; then that one carries the labels of the x axis.
  bool covered(std::size_t row, std::size_t group, std::size_t panel) const {
    for (std::size_t r = row + 1; r < rows_.size(); ++r) {
      if (group < rows_[r].groups.size() && panel < rows_[r].groups[group].panels.size()) return true;
    }
    return false;
  }

  void draw_row(Canvas& canvas, std::size_t r, double y) const {
    const FieldRow& row = rows_[r];
    const double middle = y + panel_height_ / 2;
    fitted_text(canvas, {margin + 12, middle}, row.label,
                {.size = label_size + 0.5, .bold = true, .align = Align::center, .upwards = true},
                panel_height_ + panel_title_room);
    fitted_text(canvas, {left_ + 10, middle}, y_text(),
                {.size = label_size, .align = Align::center, .upwards = true},
                panel_height_ + panel_title_room);
    for (std::size_t g = 0; g < row.groups.size(); ++g) {
      const PanelGroup& group = row.groups[g];
      if (group.panels.empty()) continue;
      for (std::size_t p = 0; p < group.panels.size(); ++p) {
        const double x = columns_[g].x + static_cast<double>(p) * (panel_width_ + panel_gap_);
        draw_panel(canvas, {x, y, panel_width_, panel_height_}, group.panels[p], bars_[r][g], g + p == 0,
                   !covered(r, g, p));
      }
      draw_bar(canvas, bars_[r][g], columns_[g].bar_x, y, panel_height_, columns_[g].labels);
    }
  }

  void draw_panel(Canvas& canvas, const Rect& area, const FieldPanel& panel, const ColorBar& bar,
                  bool leftmost, bool lowest) const {
    draw_cells(canvas, area, panel.field, bar, top_);
    canvas.frame(area);
    const double center = area.x + area.width / 2, text_room = area.width + panel_gap_ - 8;
    fitted_text(canvas, {center, area.y - 8}, panel.title, {.size = panel_title_size, .align = Align::center},
                text_room);
    const bool x_falls = x_.lo > x_.hi, y_falls = y_.lo > y_.hi;
    const AxisMap x_map{x_range_, x_falls ? area.right() : area.x, x_falls ? area.x : area.right()};
    const bool up = top_ == y_falls;  // whether y grows upwards
    const AxisMap y_map{y_range_, up ? area.bottom() : area.y, up ? area.y : area.bottom()};
    draw_x_ticks(canvas, area, x_map, x_ticks_, lowest);
    draw_y_ticks(canvas, area, y_map, y_ticks_, leftmost);
    if (lowest) {
      fitted_text(canvas, {center, area.bottom() + tick_room + tick_size + 4}, x_text(),
                  {.size = label_size, .align = Align::center, .vertical = VerticalAlign::top},
                  area.width + 10);
    }
  }

  const std::vector<FieldRow>& rows_;
  const FieldPlotOptions& options_;
  FieldAxis x_, y_;
  ValueRange x_range_, y_range_;
  Ticks x_ticks_, y_ticks_;
  double panel_width_ = 0, panel_height_ = 0, panel_gap_ = 0, left_ = 0, width_ = 0;
  bool top_ = false;
  std::vector<std::vector<ColorBar>> bars_;  // per row and group
  std::vector<Column> columns_;
};

}  // namespace

Image draw_fields(const std::vector<FieldRow>& rows, const FieldPlotOptions& options) {
  return FieldFigure(rows, options).draw();
}

}  // namespace tessera::plot
