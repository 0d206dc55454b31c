#include <algorithm>
#include <cmath>
#include <filesystem>

#include "app/post_files.hpp"
#include "app/post_plot.hpp"
#include "io/hint.hpp"
#include "io/plot/field_plot.hpp"
#include "io/plot/line_plot.hpp"

namespace tessera {
namespace {

using plot::Field2D;

constexpr Index kMostPoints = 1024;            // of a picture along one axis
constexpr Index kMostValues = Index{1} << 22;  // read at once
constexpr std::size_t kMostRows = 6;

/// A cut through the grid: which axes go across and up, and where the others are cut.
struct Plane {
  int across = 0, up = 0;  ///< equal on a 1-D grid
  Box at;                  ///< of the others one index each
};

bool goes_across(const std::string& name) {
  return name == "x" || name == "X" || name.starts_with("lon") || name.starts_with("LON");
}

Plane choose_plane(const FieldSet& fields, const PlotRequest& request, const std::string& path) {
  const Shape grid = fields.grid();
  Plane plane;
  plane.at = Box::whole(grid);
  int cut = grid.size() == 3 ? 0 : -1;
  if (!request.axis.empty()) {
    std::vector<std::string> names;
    for (const GridAxis& axis : fields.axes) names.push_back(axis.name);
    const auto found = std::find(names.begin(), names.end(), request.axis);
    if (found == names.end()) {
      fail(ExitCode::usage, path, "no axis '{}'{}", request.axis, nearest_hint(request.axis, names));
    }
    cut = grid.size() == 3 ? static_cast<int>(found - names.begin()) : -1;
  }
  if (cut >= 0) {
    const Index i = request.index >= 0 ? request.index : grid[cut] / 2;
    if (i >= grid[cut]) fail(ExitCode::usage, path, "index={}: the axis has {} points", i, grid[cut]);
    plane.at[cut] = {i, i + 1};
  }
  std::vector<int> rest;
  for (int d = 0; d < grid.size(); ++d) {
    if (d != cut) rest.push_back(d);
  }
  plane.up = rest.front();
  plane.across = rest.back();
  if (goes_across(fields.axes[static_cast<std::size_t>(plane.up)].name)) std::swap(plane.up, plane.across);
  return plane;
}

/// A channel on the plane, on at most kMostPoints per axis, read in strips of rows.
Field2D read_plane(const PostFields& set, Index trajectory, Index step, int channel, const Plane& plane) {
  const bool line = plane.up == plane.across;
  const Index rows = line ? 1 : plane.at[plane.up].size(), cols = plane.at[plane.across].size();
  const Index row_block = (rows + kMostPoints - 1) / kMostPoints;
  const Index col_block = (cols + kMostPoints - 1) / kMostPoints;
  const Index strip = std::max<Index>(kMostValues / std::max<Index>(cols, 1) / row_block, 1) * row_block;
  Field2D result{0, (cols + col_block - 1) / col_block, {}};
  std::vector<double> values;
  for (Index first = 0; first < rows; first += strip) {
    Box box = plane.at;
    if (!line) box[plane.up] = {first, std::min(first + strip, rows)};
    values.resize(static_cast<std::size_t>(box.volume()));
    set.source->read(trajectory, step, {&channel, 1}, box, values.data());
    Field2D part{std::min(strip, rows - first), cols, std::move(values)};
    if (plane.across < plane.up) {  // read as (cols, rows)
      std::vector<double> turned(part.values.size());
      for (Index r = 0; r < part.rows; ++r) {
        for (Index c = 0; c < cols; ++c) {
          turned[static_cast<std::size_t>(r * cols + c)] =
              part.values[static_cast<std::size_t>(c * part.rows + r)];
        }
      }
      part.values = std::move(turned);
    }
    Field2D shown = plot::resample(part, (part.rows + row_block - 1) / row_block, result.cols);
    result.rows += shown.rows;
    result.values.insert(result.values.end(), shown.values.begin(), shown.values.end());
    values = std::move(part.values);
  }
  return result;
}

std::string axis_label(const GridAxis& axis) {
  if (axis.unit.starts_with("degree")) return axis.name + " (°)";
  return axis.unit.empty() ? axis.name : axis.name + " (" + axis.unit + ")";
}

plot::FieldAxis field_axis(const GridAxis& axis) {
  plot::FieldAxis result{axis_label(axis), 0, 0, {}};
  const std::vector<double>& x = axis.coordinates;
  if (x.size() > 1) {
    result.lo = x[0] - (x[1] - x[0]) / 2;
    result.hi = x.back() + (x.back() - x[x.size() - 2]) / 2;
  }
  if (axis.unit.starts_with("degree")) result.ticks = plot::TickStyle::degrees;
  return result;
}

/// What is drawn: sets, channels by name, steps of one trajectory.
struct Subject {
  std::vector<PostFields> sets;
  std::vector<int> channels;  ///< of the first set
  std::vector<Index> steps;
  Index trajectory = 0;

  const Channel& channel(int c) const { return sets[0].fields().channels[static_cast<std::size_t>(c)]; }
  const Trajectory& drawn() const {
    return sets[0].fields().trajectories[static_cast<std::size_t>(trajectory)];
  }
};

std::vector<Index> choose_steps(const PlotRequest& request, Index steps, std::size_t most) {
  if (!request.steps.empty()) return request.steps;
  if (most == 1) return {steps - 1};
  std::vector<Index> chosen{0};
  for (const Index k : {steps / 2, steps - 1}) {
    if (k != chosen.back()) chosen.push_back(k);
  }
  return chosen;
}

Subject choose(const PlotRequest& request) {
  Subject subject{open_post_fields(request.paths, self_communicator()), {}, {}, request.trajectory};
  const PostFields& first = subject.sets[0];
  for (std::size_t i = 1; i < subject.sets.size(); ++i) check_comparable(first, subject.sets[i]);
  subject.channels = choose_channels(first, request.fields);
  const auto trajectories = static_cast<Index>(first.fields().trajectories.size());
  if (subject.trajectory >= trajectories) {
    fail(ExitCode::usage, first.path, "trajectory={}: found {} trajectories", subject.trajectory,
         trajectories);
  }
  const Index steps = subject.drawn().steps;
  if (steps == 0) fail(ExitCode::input_file, first.path, "trajectory {} has no steps", subject.trajectory);
  if (request.fields.empty() && subject.channels.size() > 4) subject.channels.resize(4);
  const std::size_t others = std::max<std::size_t>(subject.sets.size() - 1, 1) * subject.channels.size();
  subject.steps = choose_steps(request, steps, others > kMostRows / 3 && subject.sets.size() > 1 ? 1 : 3);
  for (const Index k : subject.steps) {
    if (k >= steps) {
      fail(ExitCode::usage, first.path, "step {} (from 0): trajectory {} has {} steps", k, subject.trajectory,
           steps);
    }
  }
  return subject;
}

std::string step_text(const Subject& subject, Index step) {
  const double time = (*subject.drawn().times)[static_cast<std::size_t>(step)];
  return fmt::format("step {}, {}", step + 1, time_text(time, subject.sets[0].fields().time_unit));
}

std::string title_of(const Subject& subject, const PlotRequest& request) {
  if (!request.title.empty()) return request.title;
  std::string title = std::filesystem::path(subject.sets[0].fields().name).stem().string();
  if (subject.channels.size() == 1) {
    title += (title.empty() ? "" : ": ") + subject.channel(subject.channels[0]).name;
  }
  if (subject.sets[0].fields().trajectories.size() > 1)
    title += fmt::format(", trajectory {}", subject.trajectory);
  if (subject.steps.size() == 1) title += ", " + step_text(subject, subject.steps[0]);
  return title;
}

std::string joined(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() || part.empty() ? "" : ", ") + part;
  return text;
}

void name_prediction(plot::FieldRow& row, const std::string& name) {
  row.groups[0].panels[1].title = name;
  std::string& error = row.groups[1].panels[0].title;
  error.replace(0, std::string("prediction").size(), name);
}

/// Rows of truth | prediction | error, of equal colours where they show one field.
std::vector<plot::FieldRow> compare_rows(const Subject& s, const Plane& plane) {
  std::vector<plot::FieldRow> rows;
  for (const int c : s.channels) {
    std::vector<plot::FieldRow> of_field;
    for (const Index step : s.steps) {
      const Field2D truth = read_plane(s.sets[0], s.trajectory, step, c, plane);
      for (std::size_t i = 1; i < s.sets.size(); ++i) {
        const int channel = same_channels(s.sets[0], {c}, s.sets[i])[0];
        const std::string label = joined(
            {s.channels.size() > 1 ? s.channel(c).name : "", s.steps.size() > 1 ? step_text(s, step) : ""});
        of_field.push_back(plot::compare_row(label, s.channel(c).unit, truth,
                                             read_plane(s.sets[i], s.trajectory, step, channel, plane)));
        if (s.sets.size() > 2) name_prediction(of_field.back(), s.sets[i].name);
      }
    }
    plot::share_ranges(of_field);
    rows.insert(rows.end(), std::make_move_iterator(of_field.begin()),
                std::make_move_iterator(of_field.end()));
  }
  return rows;
}

/// A row per field, its steps beside each other.
std::vector<plot::FieldRow> step_rows(const Subject& s, const Plane& plane) {
  std::vector<plot::FieldRow> rows;
  for (const int c : s.channels) {
    plot::PanelGroup group;
    group.unit = s.channel(c).unit;
    for (const Index step : s.steps) {
      group.panels.push_back({s.steps.size() > 1 ? step_text(s, step) : s.channel(c).name,
                              read_plane(s.sets[0], s.trajectory, step, c, plane)});
    }
    rows.push_back({s.channels.size() > 1 ? s.channel(c).name : "", {group}});
  }
  return rows;
}

plot::Image draw_lines_of(const Subject& s, const Plane& plane, const PlotRequest& request) {
  const GridAxis& axis = s.sets[0].fields().axes[0];
  std::vector<plot::Image> frames;
  for (const int c : s.channels) {
    for (const Index step : s.steps) {
      std::vector<plot::Series> curves;
      for (const PostFields& set : s.sets) {
        const Field2D line =
            read_plane(set, s.trajectory, step, same_channels(s.sets[0], {c}, set)[0], plane);
        plot::Series series;
        series.label = s.sets.size() > 1 ? set.name : "";
        series.y = line.values;
        const auto n = static_cast<double>(series.y.size()),
                   points = static_cast<double>(axis.coordinates.size());
        for (double i = 0; i < n; ++i) {
          const double at = (i + 0.5) * points / n - 0.5;
          series.x.push_back(axis.coordinates[static_cast<std::size_t>(at)]);
        }
        if (!curves.empty()) series.style = plot::LineStyle::dashed;
        curves.push_back(series);
      }
      plot::LinePlotOptions options;
      options.title = joined({request.title, s.channel(c).name, step_text(s, step)});
      options.x_label = axis_label(axis);
      options.y_label =
          s.channel(c).unit.empty() ? s.channel(c).name : s.channel(c).name + " (" + s.channel(c).unit + ")";
      options.height = 300;
      frames.push_back(plot::draw_lines(curves, options));
    }
  }
  return plot::tile(frames, static_cast<Index>(s.steps.size()));
}

}  // namespace

plot::Image plot_fields(const PlotRequest& request) {
  const Subject subject = choose(request);
  const FieldSet& fields = subject.sets[0].fields();
  const Plane plane = choose_plane(fields, request, subject.sets[0].path);
  if (fields.axes.size() == 1) return draw_lines_of(subject, plane, request);
  plot::FieldPlotOptions options;
  options.title = title_of(subject, request);
  options.x = field_axis(fields.axes[static_cast<std::size_t>(plane.across)]);
  options.y = field_axis(fields.axes[static_cast<std::size_t>(plane.up)]);
  const bool compare = subject.sets.size() > 1;
  return plot::draw_fields(compare ? compare_rows(subject, plane) : step_rows(subject, plane), options);
}

}  // namespace tessera
