#include "io/plot/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tessera::plot {
namespace {

bool finite(Point p) {
  return std::isfinite(p.x) && std::isfinite(p.y);
}

// The part of a segment inside of a rectangle (Liang and Barsky), or nothing.
std::optional<std::pair<Point, Point>> clipped(Point a, Point b, const Rect& r) {
  double from = 0, to = 1;
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double p[4] = {-dx, dx, -dy, dy};
  const double q[4] = {a.x - r.x, r.right() - a.x, a.y - r.y, r.bottom() - a.y};
  for (int i = 0; i < 4; ++i) {
    if (p[i] == 0) {
      if (q[i] < 0) return std::nullopt;
    } else if (p[i] < 0) {
      from = std::max(from, q[i] / p[i]);
    } else {
      to = std::min(to, q[i] / p[i]);
    }
  }
  if (from > to) return std::nullopt;
  return std::pair{Point{a.x + from * dx, a.y + from * dy}, Point{a.x + to * dx, a.y + to * dy}};
}

// Coverage of pixels by a set of strokes: overlapping strokes do not darken each other.
class Mask {
 public:
  Mask(Index x0, Index y0, Index x1, Index y1)
      : x0_(x0),
        y0_(y0),
        width_(std::max<Index>(x1 - x0, 0)),
        height_(std::max<Index>(y1 - y0, 0)),
        cover_(static_cast<std::size_t>(width_ * height_), 0.0f) {}

  void add(Point a, Point b, double radius) {
    const double reach = radius + 0.5;
    const double dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
    const Index top = clamp_y(std::floor(std::min(a.y, b.y) - reach));
    const Index end = clamp_y(std::ceil(std::max(a.y, b.y) + reach));
    for (Index y = top; y < end; ++y) {
      // Only the part of the segment within reach of this row of pixels can touch it.
      double from = 0, to = 1;
      const double center = static_cast<double>(y) + 0.5;
      if (dy != 0) {
        const double t0 = (center - reach - a.y) / dy, t1 = (center + reach - a.y) / dy;
        from = std::clamp(std::min(t0, t1), 0.0, 1.0);
        to = std::clamp(std::max(t0, t1), 0.0, 1.0);
      }
      const double xa = a.x + from * dx, xb = a.x + to * dx;
      const Index left = clamp_x(std::floor(std::min(xa, xb) - reach));
      const Index right = clamp_x(std::ceil(std::max(xa, xb) + reach));
      for (Index x = left; x < right; ++x) {
        const double px = static_cast<double>(x) + 0.5 - a.x, py = center - a.y;
        const double t = square > 0 ? std::clamp((px * dx + py * dy) / square, 0.0, 1.0) : 0.0;
        const double distance = std::hypot(px - t * dx, py - t * dy);
        float& c = cover_[static_cast<std::size_t>((y - y0_) * width_ + x - x0_)];
        c = std::max(c, static_cast<float>(std::clamp(reach - distance, 0.0, 1.0)));
      }
    }
  }

  void paint(Image& image, Color color, double opacity) const {
    for (Index y = 0; y < height_; ++y) {
      for (Index x = 0; x < width_; ++x) {
        const float c = cover_[static_cast<std::size_t>(y * width_ + x)];
        if (c > 0) image.blend(x0_ + x, y0_ + y, color, opacity * c);
      }
    }
  }

 private:
  Index clamp_x(double x) const { return clamp_to(x, x0_, width_); }
  Index clamp_y(double y) const { return clamp_to(y, y0_, height_); }
  static Index clamp_to(double v, Index lo, Index size) {
    return static_cast<Index>(std::clamp(v, static_cast<double>(lo), static_cast<double>(lo + size)));
  }

  Index x0_, y0_, width_, height_;
  std::vector<float> cover_;
};

std::vector<Polyline> dashed(const std::vector<Polyline>& lines, const std::vector<double>& dashes) {
  std::vector<Polyline> pieces;
  for (const Polyline& line : lines) {
    std::size_t dash = 0;
    double left = dashes[0];
    Polyline piece{line.front()};
    for (std::size_t i = 1; i < line.size(); ++i) {
      Point a = line[i - 1];
      const Point b = line[i];
      double length = std::hypot(b.x - a.x, b.y - a.y);
      while (length > left) {
        const double f = left / length;
        a = {a.x + f * (b.x - a.x), a.y + f * (b.y - a.y)};
        length -= left;
        if (dash % 2 == 0) {
          piece.push_back(a);
          pieces.push_back(std::move(piece));
        }
        piece = {a};
        dash = (dash + 1) % dashes.size();
        left = dashes[dash];
      }
      left -= length;
      piece.push_back(b);
    }
    if (dash % 2 == 0) pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace

double text_width(std::string_view text, const TextStyle& style) {
  return style.size * text_width(text, style.bold);
}

Canvas::Canvas(double width, double height, double scale, Color background)
    : image_(static_cast<Index>(std::lround(width * scale)), static_cast<Index>(std::lround(height * scale)),
             background),
      scale_(scale) {}

Index Canvas::pixel(double position) const {
  return static_cast<Index>(std::lround(position * scale_));
}

void Canvas::fill(const Rect& area, Color color, double opacity) {
  for (Index y = pixel(area.y); y < pixel(area.bottom()); ++y) {
    for (Index x = pixel(area.x); x < pixel(area.right()); ++x) image_.blend(x, y, color, opacity);
  }
}

void Canvas::frame(const Rect& area, Color color) {
  const double line = 1;
  fill({area.x - line, area.y - line, area.width + 2 * line, line}, color);
  fill({area.x - line, area.bottom(), area.width + 2 * line, line}, color);
  fill({area.x - line, area.y, line, area.height}, color);
  fill({area.right(), area.y, line, area.height}, color);
}

void Canvas::horizontal(double x0, double x1, double y, Color color) {
  fill({x0, y - 0.5, x1 - x0, 1}, color);
}

void Canvas::vertical(double x, double y0, double y1, Color color) {
  fill({x - 0.5, y0, 1, y1 - y0}, color);
}

void Canvas::stroke(std::span<const Polyline> lines, const Pen& pen, const Rect& clip) {
  const double radius = std::max(pen.width * scale_, 0.6) / 2;
  Mask mask(pixel(clip.x), pixel(clip.y), pixel(clip.right()), pixel(clip.bottom()));
  for (const Polyline& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const Point a = line[i == 0 ? 0 : i - 1], b = line[i];
      if (i == 0 && line.size() > 1) continue;
      mask.add({a.x * scale_, a.y * scale_}, {b.x * scale_, b.y * scale_}, radius);
    }
  }
  mask.paint(image_, pen.color, pen.opacity);
}

void Canvas::polyline(std::span<const Point> points, const Pen& pen, const Rect& clip) {
  const Rect reach{clip.x - pen.width, clip.y - pen.width, clip.width + 2 * pen.width,
                   clip.height + 2 * pen.width};
  std::vector<Polyline> lines;
  bool joined = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point p = points[i];
    if (!finite(p) || i == 0 || !finite(points[i - 1])) {
      joined = false;
      continue;
    }
    const auto part = clipped(points[i - 1], p, reach);
    if (!part) {
      joined = false;
      continue;
    }
    const bool whole_start = part->first.x == points[i - 1].x && part->first.y == points[i - 1].y;
    if (!joined || !whole_start) lines.push_back({part->first});
    lines.back().push_back(part->second);
    joined = true;
  }
  if (!pen.dashes.empty()) lines = dashed(lines, pen.dashes);
  stroke(lines, pen, clip);
}

void Canvas::polyline(std::span<const Point> points, const Pen& pen) {
  polyline(points, pen, whole());
}

void Canvas::disc(Point center, double radius, Color color, double opacity) {
  if (!finite(center)) return;
  const Rect around{center.x - radius - 1, center.y - radius - 1, 2 * radius + 2, 2 * radius + 2};
  const Polyline dot{center};
  stroke({&dot, 1}, {color, 2 * radius, opacity, {}}, around);
}

void Canvas::triangle(Point a, Point b, Point c, Color color) {
  const auto side = [](Point p, Point q, double x, double y) {
    return (q.x - p.x) * (y - p.y) - (q.y - p.y) * (x - p.x);
  };
  const double turn = side(a, b, c.x, c.y) < 0 ? -1 : 1;
  const Index top = pixel(std::min({a.y, b.y, c.y})), end = pixel(std::max({a.y, b.y, c.y}));
  const Index left = pixel(std::min({a.x, b.x, c.x})), right = pixel(std::max({a.x, b.x, c.x}));
  constexpr int samples = 4;
  for (Index y = top; y < end; ++y) {
    for (Index x = left; x < right; ++x) {
      int inside = 0;
      for (int s = 0; s < samples * samples; ++s) {
        const double px = (static_cast<double>(x) + (s % samples + 0.5) / samples) / scale_;
        const double py = (static_cast<double>(y) + (s / samples + 0.5) / samples) / scale_;
        inside += turn * side(a, b, px, py) >= 0 && turn * side(b, c, px, py) >= 0 &&
                  turn * side(c, a, px, py) >= 0;
      }
      image_.blend(x, y, color, static_cast<double>(inside) / (samples * samples));
    }
  }
}

void Canvas::text(Point anchor, std::string_view text, const TextStyle& style) {
  const double size = style.size, length = text_width(text, style);
  double along = style.align == Align::left ? 0 : style.align == Align::center ? -length / 2 : -length;
  const double drop = style.vertical == VerticalAlign::baseline ? 0 : size * cap_height;
  const double across = style.vertical == VerticalAlign::middle ? drop / 2 : drop;
  const double width = size * (style.bold ? bold_pen_width : pen_width);
  const double extra = style.bold ? bold_pen_width - pen_width : 0;

  std::vector<Polyline> lines;
  Point low{anchor.x, anchor.y}, high = low;
  for (const char32_t code : decode_utf8(text)) {
    const Glyph& letter = glyph(code);
    for (const Polyline& stroke_line : letter.strokes) {
      Polyline& line = lines.emplace_back();
      for (const Point p : stroke_line) {
        const double u = along + size * (p.x + extra / 2), v = across - size * p.y;
        const Point q = style.upwards ? Point{anchor.x + v, anchor.y - u} : Point{anchor.x + u, anchor.y + v};
        low = {std::min(low.x, q.x), std::min(low.y, q.y)};
        high = {std::max(high.x, q.x), std::max(high.y, q.y)};
        line.push_back(q);
      }
    }
    along += size * (letter.advance + extra);
  }
  const double room = width + 1;
  stroke(lines, {style.color, width, 1, {}},
         {low.x - room, low.y - room, high.x - low.x + 2 * room, high.y - low.y + 2 * room});
}

}  // namespace tessera::plot
