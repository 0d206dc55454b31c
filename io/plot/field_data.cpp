// The numbers behind a field plot: ranges, resampling, errors.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "io/plot/field_plot.hpp"
#include "parallel/error.hpp"

namespace tessera::plot {
namespace {

constexpr ValueRange no_range{std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity()};

ValueRange finite_range(const PanelGroup& group) {
  ValueRange range = no_range;
  for (const FieldPanel& panel : group.panels) {
    for (const double v : panel.field.values) {
      if (!std::isfinite(v)) continue;
      range.lo = std::min(range.lo, v);
      range.hi = std::max(range.hi, v);
    }
  }
  return range;
}

bool crosses_zero(const ValueRange& range) {
  return range.lo < 0 && range.hi > 0 && std::min(-range.lo, range.hi) > 0.2 * std::max(-range.lo, range.hi);
}

// The cells [first, last) of `n` that output cell `i` of `m` covers, and how much of the first and the last
// one.
struct Cover {
  Index first, last;
  double first_part, last_part;

  double weight(Index k) const { return k == first ? first_part : k == last - 1 ? last_part : 1.0; }
};

std::vector<Cover> covers(Index n, Index m) {
  std::vector<Cover> result;
  for (Index i = 0; i < m; ++i) {
    if (n <= m) {
      const Index k = (2 * i + 1) * n / (2 * m);
      result.push_back({k, k + 1, 1, 1});
      continue;
    }
    const Index first = i * n / m, last = ((i + 1) * n + m - 1) / m;
    const double from = static_cast<double>(i * n) / static_cast<double>(m);
    const double to = static_cast<double>((i + 1) * n) / static_cast<double>(m);
    result.push_back(
        {first, last, static_cast<double>(first) + 1 - from, to - static_cast<double>(last - 1)});
  }
  return result;
}

double mean_over(const Field2D& field, const Cover& row, const Cover& col) {
  double sum = 0, weights = 0, all = 0;
  for (Index r = row.first; r < row.last; ++r) {
    for (Index c = col.first; c < col.last; ++c) {
      const double v = field.values[static_cast<std::size_t>(r * field.cols + c)];
      const double w = row.weight(r) * col.weight(c);
      all += w;
      if (!std::isfinite(v)) continue;
      sum += w * v;
      weights += w;
    }
  }
  return weights > 0.5 * all ? sum / weights : std::numeric_limits<double>::quiet_NaN();
}

// Three significant digits, trailing zeros included.
std::string three_digits(double value) {
  return value >= 1e-3 && value < 999 ? fmt::format("{:#.3g}", value) : short_number(value, 3);
}

}  // namespace

bool is_diverging(const PanelGroup& group) {
  if (group.scale != ColorScale::automatic) return group.scale == ColorScale::diverging;
  return crosses_zero(group.range ? *group.range : finite_range(group));
}

ValueRange color_range(const PanelGroup& group) {
  if (group.range) return drawable(*group.range);
  const ValueRange range = finite_range(group);
  if (range.lo > range.hi) return is_diverging(group) ? ValueRange{-1, 1} : ValueRange{0, 1};
  if (!is_diverging(group)) return drawable(range);
  const double reach = std::max(std::abs(range.lo), std::abs(range.hi));
  return drawable({-reach, reach});
}

void share_ranges(std::vector<FieldRow>& rows) {
  std::size_t columns = 0;
  for (const FieldRow& row : rows) columns = std::max(columns, row.groups.size());
  for (std::size_t g = 0; g < columns; ++g) {
    ValueRange all = no_range;
    bool diverging = false;
    for (const FieldRow& row : rows) {
      if (g >= row.groups.size()) continue;
      const ValueRange range = finite_range(row.groups[g]);
      all = {std::min(all.lo, range.lo), std::max(all.hi, range.hi)};
      diverging |= row.groups[g].scale == ColorScale::diverging;
    }
    if (all.lo > all.hi) continue;
    diverging |= crosses_zero(all);
    const double reach = std::max(std::abs(all.lo), std::abs(all.hi));
    for (FieldRow& row : rows) {
      if (g >= row.groups.size()) continue;
      row.groups[g].scale = diverging ? ColorScale::diverging : ColorScale::sequential;
      row.groups[g].range = diverging ? ValueRange{-reach, reach} : all;
    }
  }
}

Field2D resample(const Field2D& field, Index rows, Index cols) {
  Field2D result{rows, cols, {}};
  result.values.reserve(static_cast<std::size_t>(rows * cols));
  const std::vector<Cover> across = covers(field.cols, cols);
  for (const Cover& row : covers(field.rows, rows)) {
    for (const Cover& col : across) result.values.push_back(mean_over(field, row, col));
  }
  return result;
}

FieldRow compare_row(std::string label, std::string unit, Field2D truth, Field2D prediction) {
  require(truth.rows == prediction.rows && truth.cols == prediction.cols &&
              truth.values.size() == prediction.values.size(),
          "plot::compare_row", "truth and prediction differ in shape: found {} x {} and {} x {}", truth.rows,
          truth.cols, prediction.rows, prediction.cols);
  Field2D error{truth.rows, truth.cols, {}};
  error.values.reserve(truth.values.size());
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < truth.values.size(); ++i) {
    const double e = prediction.values[i] - truth.values[i];
    error.values.push_back(e);
    if (!std::isfinite(e)) continue;
    sum += e * e;
    count += 1;
  }
  std::string error_title = "prediction \u2212 truth";
  if (count > 0) error_title += fmt::format(", RMSE {}", three_digits(std::sqrt(sum / count)));
  FieldRow row{std::move(label), {}};
  row.groups.push_back({{{"truth", std::move(truth)}, {"prediction", std::move(prediction)}}, unit, {}, {}});
  row.groups.push_back({{{error_title, std::move(error)}}, unit, ColorScale::diverging, {}});
  return row;
}

}  // namespace tessera::plot
