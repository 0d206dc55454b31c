#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/post_files.hpp"
#include "app/post_info.hpp"
#include "app/text_table.hpp"
#include "app/value_figures.hpp"
#include "io/fields/field_writer.hpp"
#include "io/fields/well_source.hpp"
#include "parallel/layout.hpp"
#include "parallel/units.hpp"

namespace tessera {
namespace {

/// At most `most` of (trajectory, step), spread evenly; all if it is negative.
std::vector<std::pair<Index, Index>> chosen_steps(const FieldSet& fields, Index most) {
  std::vector<std::pair<Index, Index>> all, chosen;
  for (std::size_t b = 0; b < fields.trajectories.size(); ++b) {
    for (Index t = 0; t < fields.trajectories[b].steps; ++t) all.emplace_back(static_cast<Index>(b), t);
  }
  const auto total = static_cast<Index>(all.size());
  if (most < 0 || most >= total) return all;
  for (Index i = 0; i < most; ++i) chosen.push_back(all[static_cast<std::size_t>(i * total / most)]);
  return chosen;
}

std::vector<ValueFigures> field_ranges(FieldSource& source, const std::vector<std::pair<Index, Index>>& steps,
                                       const CommPtr& world) {
  const MeshAxis axis{"ranks", -1};
  const Shape grid = source.fields().grid();
  const Box box = Layout::even(Mesh(world, {&axis, 1}), {Shard(0)}, grid).local_box();
  std::vector<int> channels;
  for (std::size_t c = 0; c < source.fields().channels.size(); ++c) channels.push_back(static_cast<int>(c));
  std::vector<ValueFigures> ranges(channels.size());
  std::vector<double> values(static_cast<std::size_t>(box.volume()) * channels.size());
  for (const auto& [trajectory, step] : steps) {
    source.read(trajectory, step, channels, box, values.data());
    add_values(ranges, values);
  }
  std::vector<Moments> moments;
  for (const ValueFigures& r : ranges) moments.push_back(r.moments);
  all_merge(*world, moments);
  for (std::size_t c = 0; c < ranges.size(); ++c) {
    ranges[c].moments = moments[c];
    ranges[c].bad = world->all_reduce_value(ranges[c].bad, ReduceOp::sum);
  }
  return ranges;
}

std::string axes_text(const FieldSet& fields) {
  TextTable table(2);
  table.row({"axis", "unit", "points", "from", "to", "edges"});
  for (const GridAxis& axis : fields.axes) {
    const std::string edges = axis.edges[0] == axis.edges[1]
                                  ? std::string(name_of(axis.edges[0]))
                                  : fmt::format("{}, {}", name_of(axis.edges[0]), name_of(axis.edges[1]));
    table.row({axis.name, or_dash(axis.unit), std::to_string(axis.coordinates.size()),
               fmt::format("{:.5g}", axis.coordinates.front()),
               fmt::format("{:.5g}", axis.coordinates.back()), edges});
  }
  return table.text();
}

std::string channels_text(const FieldSet& fields, const std::vector<ValueFigures>& ranges) {
  TextTable table(3);
  std::vector<std::string> head{"field", "unit", "kind"};
  if (!ranges.empty()) head.insert(head.end(), {"least", "mean", "greatest", "deviation", "not finite"});
  const bool bad = std::any_of(ranges.begin(), ranges.end(), [](const ValueFigures& r) { return r.bad > 0; });
  if (!bad && !ranges.empty()) head.pop_back();
  table.row(head);
  const char* kinds[] = {"scalar", "vector", "tensor"};
  for (std::size_t c = 0; c < fields.channels.size(); ++c) {
    const Channel& channel = fields.channels[c];
    std::vector<std::string> cells{channel.name, or_dash(channel.unit),
                                   std::string(kinds[std::clamp(channel.order, 0, 2)]) +
                                       (channel.time_varying ? "" : ", constant in time")};
    if (!ranges.empty()) {
      for (const std::string& cell : figure_cells(ranges[c])) cells.push_back(cell);
    }
    table.row(cells);
  }
  return table.text();
}

std::string times_text(const FieldSet& fields) {
  const auto at = std::find_if(fields.trajectories.begin(), fields.trajectories.end(),
                               [](const Trajectory& t) { return t.steps > 0; });
  if (at == fields.trajectories.end() || !at->times) return "-";
  const std::vector<double>& times = *at->times;
  std::string text = time_text(times.front(), fields.time_unit);
  if (times.size() > 1)
    text += " to " + time_text(times[static_cast<std::size_t>(at->steps) - 1], fields.time_unit);
  return text + (fields.trajectories.size() > 1 ? " (the first trajectory)" : "");
}

/// Constants of the files; the range where trajectories differ.
std::string parameters_text(const FieldSet& fields) {
  std::map<std::string, std::pair<double, double>> ranges;
  for (const Trajectory& trajectory : fields.trajectories) {
    for (const auto& [name, value] : trajectory.parameters) {
      const auto [at, added] = ranges.try_emplace(name, value, value);
      at->second = {std::min(at->second.first, value), std::max(at->second.second, value)};
    }
  }
  std::string text;
  for (const auto& [name, range] : ranges) {
    text += text.empty() ? "" : ", ";
    text += range.first == range.second
                ? fmt::format("{} = {:.6g}", name, range.first)
                : fmt::format("{} = {:.6g} ... {:.6g}", name, range.first, range.second);
  }
  return text;
}

std::string provenance_text(const std::string& path, bool all) {
  std::string text;
  for (const auto& [name, value] : read_provenance(path)) {
    const bool lines = value.find('\n') != std::string::npos;
    if (!lines) {
      text += fmt::format("    {:<14} {}\n", name, value);
    } else if (all) {
      text += fmt::format("    {}:\n", name);
      for (std::size_t from = 0; from < value.size();) {
        const std::size_t end = std::min(value.find('\n', from), value.size());
        text += "      " + value.substr(from, end - from) + "\n";
        from = end + 1;
      }
    } else {
      text += fmt::format("    {:<14} {} lines (all=true prints them)\n", name,
                          std::count(value.begin(), value.end(), '\n'));
    }
  }
  return text.empty() ? "" : "  provenance\n" + text;
}

}  // namespace

std::string fields_info(const std::string& path, const InfoOptions& options, const CommPtr& world) {
  const PostFields set = open_post_fields({path}, world).front();
  const FieldSet& fields = set.fields();
  const auto steps = chosen_steps(fields, options.steps);
  std::vector<ValueFigures> ranges;
  if (!steps.empty()) ranges = field_ranges(*set.source, steps, world);
  Index total = 0;
  for (const Trajectory& t : fields.trajectories) total += t.steps;
  const std::vector<std::string> files = list_hdf5_files({path});
  double bytes = 0;
  for (const std::string& file : files) bytes += static_cast<double>(std::filesystem::file_size(file));

  std::string text = fmt::format("{}: fields in The Well's layout\n", path);
  TextTable head;
  head.row({"data set", or_dash(fields.name)});
  head.row({"files", fmt::format("{}, {}", files.size(), bytes_text(bytes))});
  head.row({"samples", steps_text(fields)});
  head.row({"times", times_text(fields)});
  if (const std::string parameters = parameters_text(fields); !parameters.empty()) {
    head.row({"constants", parameters});
  }
  text += head.text() + "\n" + axes_text(fields) + "\n" + channels_text(fields, ranges);
  if (!ranges.empty() && static_cast<Index>(steps.size()) < total) {
    text += fmt::format("  figures from {} of {} steps (steps=-1 reads all)\n", steps.size(), total);
  }
  const std::string provenance = provenance_text(files.front(), options.all);
  return text + (provenance.empty() ? "" : "\n") + provenance;
}

}  // namespace tessera
