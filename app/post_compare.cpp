#include "app/post_compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "app/commands.hpp"
#include "app/post_files.hpp"
#include "io/agree.hpp"
#include "io/atomic_file.hpp"

namespace tessera {
namespace {

/// Cuts the first axis if it has a row for every rank, else the longest.
Layout even_rows(const CommPtr& world, const Shape& grid) {
  const MeshAxis ranks{"ranks", -1};
  int axis = 0;
  if (grid[0] < world->size()) {
    for (int d = 0; d < grid.size(); ++d) axis = grid[d] > grid[axis] ? d : axis;
  }
  return Layout::even(Mesh(world, {&ranks, 1}), {Shard(axis)}, grid);
}

/// The time between steps if it is the same everywhere, else 0.
double step_length(const FieldSet& fields) {
  double length = 0;
  for (const Trajectory& trajectory : fields.trajectories) {
    for (std::size_t t = 1; t < static_cast<std::size_t>(trajectory.steps); ++t) {
      const double dt = (*trajectory.times)[t] - (*trajectory.times)[t - 1];
      if (length == 0) length = dt;
      if (std::abs(dt - length) > 1e-3 * std::abs(length)) return 0;
    }
  }
  return length;
}

/// One prediction's meter, its channels and what it read last.
struct Candidate {
  FieldSourcePtr source;
  std::vector<int> channels;
  ErrorMeter meter;
};

std::vector<Candidate> make_candidates(const std::vector<PostFields>& sets, const std::vector<int>& channels,
                                       const Layout& grid, const std::vector<Metric>& metrics) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 1; i < sets.size(); ++i) {
    candidates.push_back({sets[i].source, same_channels(sets[0], channels, sets[i]),
                          ErrorMeter(grid, static_cast<Index>(channels.size()), metrics)});
  }
  return candidates;
}

void measure(const PostFields& truth, const std::vector<int>& channels, std::vector<Candidate>& candidates,
             const Box& box, Index skip) {
  const std::size_t n = static_cast<std::size_t>(box.volume()) * channels.size();
  std::vector<double> expected(n), found(n);
  const std::vector<Trajectory>& trajectories = truth.fields().trajectories;
  for (std::size_t b = 0; b < trajectories.size(); ++b) {
    for (Index t = skip; t < trajectories[b].steps; ++t) {
      truth.source->read(static_cast<Index>(b), t, channels, box, expected.data());
      for (Candidate& candidate : candidates) {
        candidate.source->read(static_cast<Index>(b), t, candidate.channels, box, found.data());
        candidate.meter.add(t - skip, expected.data(), found.data());
      }
    }
  }
}

std::vector<double> all_values(const ErrorMeter& meter, std::size_t fields) {
  std::vector<double> values;
  for (const Metric metric : meter.metrics()) {
    for (std::size_t f = 0; f < fields; ++f) {
      for (Index lead = 0; lead < meter.leads(); ++lead) {
        values.push_back(meter.value(metric, static_cast<Index>(f), lead));
      }
    }
  }
  for (const Metric metric : meter.metrics()) {
    for (std::size_t f = 0; f < fields; ++f) {
      values.push_back(meter.mean_value(metric, static_cast<Index>(f)));
    }
  }
  return values;
}

}  // namespace

double Comparison::value(const Column& column, std::size_t metric, std::size_t field, Index lead) const {
  const std::size_t row = metric * fields.size() + field;
  return column.values[row * static_cast<std::size_t>(leads) + static_cast<std::size_t>(lead)];
}

double Comparison::mean(const Column& column, std::size_t metric, std::size_t field) const {
  const std::size_t means = metrics.size() * fields.size() * static_cast<std::size_t>(leads);
  return column.values[means + metric * fields.size() + field];
}

Comparison compare_fields(const CompareRequest& request, const CommPtr& world) {
  const std::vector<PostFields> sets = open_post_fields(request.paths, world);
  if (sets.size() < 2) {
    fail(ExitCode::usage, "post compare",
         "found {} set of fields, expected TRUTH PREDICTION [PREDICTION ...]", sets.size());
  }
  const PostFields& truth = sets[0];
  const std::vector<int> channels = choose_channels(truth, request.fields);
  for (std::size_t i = 1; i < sets.size(); ++i) check_comparable(truth, sets[i]);
  if (longest_trajectory(truth.fields()) <= request.skip) {
    fail(ExitCode::input_file, truth.path, "no steps to compare: found {}, skip={}",
         steps_text(truth.fields()), request.skip);
  }
  const Layout grid = even_rows(world, truth.fields().grid());
  std::vector<Candidate> candidates = make_candidates(sets, channels, grid, request.metrics);
  measure(truth, channels, candidates, grid.local_box(), request.skip);

  Comparison result;
  result.truth = truth.path;
  result.grid = grid_text(truth.fields());
  result.steps = steps_text(truth.fields());
  result.metrics = request.metrics;
  for (const int c : channels) {
    const Channel& channel = truth.fields().channels[static_cast<std::size_t>(c)];
    result.fields.push_back({channel.name, channel.unit});
  }
  result.step_length = step_length(truth.fields());
  result.time_unit = truth.fields().time_unit;
  result.leads = candidates.front().meter.leads();
  for (Index k = 0; k < result.leads; ++k) result.samples.push_back(candidates.front().meter.samples(k));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    result.columns.push_back(
        {sets[i + 1].name, sets[i + 1].path, all_values(candidates[i].meter, channels.size())});
  }
  return result;
}

Schema post_compare_schema() {
  return Schema("Options of `tessera post compare`", [](Section& s) {
    s.texts("fields").single_allowed().empty().help("fields or components; default: all that vary in time");
    s.texts("metrics")
        .single_allowed()
        .defaults(std::vector<std::string>{"pooled_rmse", "vrmse"})
        .help("names of metrics, or all");
    s.integer("skip").min(0).defaults(Index{0}).unit("steps").help(
        "leave out the first steps, where they are given to the model");
    s.text("json").optional().help("write everything to this file, too");
  });
}

int post_compare(const CommPtr& world, const CommandLine& line) {
  const Deck options = Deck::parse(post_compare_schema(), {}, line.overrides);
  CompareRequest request;
  request.paths = line.files;
  request.fields = split_commas(options.get<std::vector<std::string>>("fields"));
  request.metrics = parse_metrics(options.get<std::vector<std::string>>("metrics"));
  request.skip = options.get<Index>("skip");
  const Comparison comparison = compare_fields(request, world);
  if (const auto json = options.find<std::string>("json")) {
    run_on_root(*world, [&] {
      const std::filesystem::path folder = std::filesystem::path(*json).parent_path();
      if (!folder.empty()) std::filesystem::create_directories(folder);
      write_text_atomically(*json, comparison_json(comparison));
    });
  }
  if (world->rank() == 0 && !line.quiet) std::fputs(comparison_table(comparison).c_str(), stdout);
  return static_cast<int>(ExitCode::done);
}

}  // namespace tessera
