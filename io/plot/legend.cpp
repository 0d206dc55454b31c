#include "io/plot/legend.hpp"

#include <algorithm>

#include "io/plot/axes.hpp"

namespace tessera::plot {
namespace {

constexpr double line_height = 18, sample = 24, sample_gap = 6, entry_gap = 20;

}  // namespace

Legend::Legend(std::vector<LegendEntry> entries, double width) : entries_(std::move(entries)), width_(width) {
  std::erase_if(entries_, [](const LegendEntry& e) { return e.label.empty(); });
  double x = 0;
  int line = 0;
  for (LegendEntry& entry : entries_) {
    entry.label = shorten_text(entry.label, (width - sample - sample_gap) / label_size);
    const double needed = sample + sample_gap + text_width(entry.label, TextStyle{.size = label_size});
    if (x > 0 && x + needed > width) {
      x = 0;
      ++line;
    }
    places_.push_back({x, line});
    x += needed + entry_gap;
  }
}

double Legend::height() const {
  return places_.empty() ? 0 : line_height * (places_.back().line + 1) + 4;
}

void Legend::draw(Canvas& canvas, double x, double y) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const LegendEntry& entry = entries_[i];
    const double left = x + places_[i].x, middle = y + line_height * (places_[i].line + 0.5) - 2;
    const Point line[] = {{left, middle}, {left + sample, middle}};
    if (entry.line) canvas.polyline(line, entry.pen);
    if (entry.marker) canvas.disc({left + sample / 2, middle}, 3, entry.pen.color, entry.pen.opacity);
    if (!entry.line && !entry.marker) {
      canvas.fill({left + sample - 14, middle - 5, 14, 10}, entry.pen.color, entry.pen.opacity);
    }
    canvas.text({left + sample + sample_gap, middle}, entry.label,
                {.size = label_size, .vertical = VerticalAlign::middle});
  }
}

}  // namespace tessera::plot
