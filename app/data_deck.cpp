#include "app/data_deck.hpp"

#include <algorithm>
#include <filesystem>

#include "io/fields/generic_source.hpp"
#include "io/fields/well_source.hpp"

namespace tessera {
namespace {

void describe_bad_values(Section& s) {
  s.choice("action", {"error", "fill", "keep"})
      .defaults("error")
      .help(
          "missing values, NaN and infinity in the files: stop with an error, replace, or hand over as NaN");
  s.real("value").defaults(0.0).help("the replacement for `fill`, in the data's units");
}

void describe_variable(Section& s) {
  s.text("dataset").help("path of the dataset in the file");
  s.texts("channels").empty().help("names of its channels; default: the dataset's name");
  s.text("unit").defaults("").help("default: the dataset's attribute `units`");
  s.texts("dims").empty().help("meaning of its dimensions; default: data.dims");
}

void describe_harmonics(Section& s) {
  s.real("period").above(0).help("length of the cycle: steps, or the axis's unit");
  s.integer("harmonics").min(1).defaults(Index{1}).help("sin and cos of 1 ... this many multiples");
}

void describe_coordinate(Section& s) {
  s.text("axis").help("grid axis");
  s.selector("type").defaults("scaled").help("how the coordinate becomes inputs");
  s.variant(
      "scaled", [](Section&) {}, "one channel from -1 to 1");
  s.variant("harmonics", describe_harmonics, "sin and cos of multiples");
}

void describe_inputs(Section& s) {
  s.integers("lags")
      .single_allowed()
      .length(1, 64)
      .min(1)
      .defaults(std::vector<Index>{1})
      .unit("steps")
      .help("the model sees the fields this many steps before the target");
  s.texts("constants").empty().help("channels that do not vary in time, as further inputs");
  s.sections("coordinates", describe_coordinate).empty().help("inputs made from the grid's coordinates");
  s.sections("calendars", describe_harmonics)
      .empty()
      .help("periodic inputs made from the target's step number");
}

void describe_residual(Section& s) {
  s.integer("lag").min(1).defaults(Index{1}).unit("steps").help(
      "predict the change against factor * field at this lag");
  s.real("factor").defaults(1.0).help("share of the lagged field that is the base");
}

void describe_output(Section& s) {
  s.section("residual", describe_residual).optional().help("predict a change instead of the field");
  s.section("seasonal", describe_harmonics)
      .optional()
      .help("add a learned function of the time of the cycle for every cell and field");
}

void describe_split(Section& s) {
  s.selector("type").defaults("folders").help("how train, valid and test are told apart");
  s.variant(
      "folders", [](Section&) {},
      "subfolders train, valid, test of each path (or of its data/), as in The Well");
  const auto ranges = [](const char* what) {
    return [what](Section& v) {
      for (std::string_view name : kSplitNames) {
        v.integers(std::string(name))
            .length(0, 2)
            .min(0)
            .empty()
            .help(std::string("[first, end) of the ") + what);
      }
    };
  };
  s.variant("time", ranges("target steps"), "by the step that is predicted");
  s.variant("trajectories", ranges("trajectories"), "by trajectory");
}

BadValuePolicy bad_values(const Deck& deck) {
  BadValuePolicy policy;
  policy.action =
      deck.choose<BadValuePolicy::Action>("data.bad_values.action", {{"error", BadValuePolicy::Action::error},
                                                                     {"fill", BadValuePolicy::Action::fill},
                                                                     {"keep", BadValuePolicy::Action::keep}});
  policy.value = deck.get<double>("data.bad_values.value");
  return policy;
}

FieldSourcePtr open_source(const Deck& deck, const std::vector<std::string>& paths) {
  if (deck.get<std::string>("data.format") == "well") return open_well({paths, bad_values(deck)});
  GenericSourceSpec spec;
  spec.paths = paths;
  spec.bad_values = bad_values(deck);
  spec.join = deck.choose<GenericSourceSpec::Join>(
      "data.join", {{"sample", GenericSourceSpec::Join::sample}, {"time", GenericSourceSpec::Join::time}});
  spec.dims = deck.get<std::vector<std::string>>("data.dims");
  for (const Deck& v : deck.sections("data.variables")) {
    spec.variables.push_back({v.get<std::string>("dataset"), v.get<std::vector<std::string>>("channels"),
                              v.get<std::string>("unit"), v.get<std::vector<std::string>>("dims")});
  }
  spec.time = deck.get<std::string>("data.time");
  const Deck edges = deck.section("data.edges");
  for (const std::string& axis : edges.keys()) {
    spec.edges[axis] = parse_edge_kind(edges.get<std::string>(axis), edges.where(axis));
  }
  return open_generic(spec);
}

std::vector<std::string> split_paths(const Deck& deck, std::string_view split) {
  std::vector<std::string> paths;
  for (const std::string& base : deck.get<std::vector<std::string>>("data.path")) {
    const std::filesystem::path in_data = std::filesystem::path(base) / "data" / split;
    paths.push_back(
        (std::filesystem::is_directory(in_data) ? in_data : std::filesystem::path(base) / split).string());
  }
  return paths;
}

SampleSpec sample_spec(const Deck& deck, const FieldSet& fields) {
  SampleSpec spec;
  spec.fields = deck.get<std::vector<std::string>>("data.fields");
  spec.constants = deck.get<std::vector<std::string>>("data.inputs.constants");
  if (spec.fields.empty()) {
    for (const Channel& c : fields.channels) {
      const bool constant =
          std::find(spec.constants.begin(), spec.constants.end(), c.name) != spec.constants.end();
      if (c.time_varying && !constant) spec.fields.push_back(c.name);
    }
  }
  spec.lags = deck.get<std::vector<Index>>("data.inputs.lags");
  for (const Deck& c : deck.sections("data.inputs.coordinates")) {
    CoordinateInput input{c.get<std::string>("axis"), c.get<std::string>("type") == "scaled", {}};
    if (!input.scaled) input.harmonics = {c.get<double>("period"), c.get<Index>("harmonics")};
    spec.coordinates.push_back(input);
  }
  for (const Deck& c : deck.sections("data.inputs.calendars")) {
    spec.calendars.push_back({c.get<double>("period"), c.get<Index>("harmonics")});
  }
  if (deck.has("data.output.residual")) {
    spec.residual_lag = deck.get<Index>("data.output.residual.lag");
    spec.residual_factor = deck.get<double>("data.output.residual.factor");
  }
  return spec;
}

/// [first, end) of a split key, clamped to `extent`; empty where the deck gives none.
Range split_range(const Deck& deck, const std::string& key, Index extent) {
  const auto range = deck.get<std::vector<Index>>(key);
  if (range.empty()) return {};
  if (range.size() != 2 || range[0] > range[1])
    throw deck.error(key, "expected [first, end) with first <= end");
  if (range[1] > extent) throw deck.error(key, "found end {}, the data have {}", range[1], extent);
  return {range[0], range[1]};
}

std::vector<SampleId> list_samples(const FieldSet& fields, Range trajectories, Range targets, Index history) {
  std::vector<SampleId> samples;
  for (Index r = trajectories.lo; r < trajectories.hi; ++r) {
    const Index steps = fields.trajectories[static_cast<std::size_t>(r)].steps;
    for (Index t = std::max(history, targets.lo); t < std::min(steps, targets.hi); ++t)
      samples.push_back({r, t});
  }
  return samples;
}

void open_folders(const Deck& deck, DataSet& data) {
  for (int i = 0; i < 3; ++i) {
    const std::vector<std::string> paths = split_paths(deck, kSplitNames[i]);
    // Validation and test data may be missing; training data may not.
    const bool there =
        std::all_of(paths.begin(), paths.end(), [](const auto& p) { return std::filesystem::exists(p); });
    if (i == 0 || there) data.splits[i].source = open_source(deck, paths);
  }
  data.spec = sample_spec(deck, data.fields());
  for (Split& split : data.splits) {
    if (!split.source) continue;
    const FieldSet& fields = split.source->fields();
    if (fields.grid() != data.grid()) {
      fail(ExitCode::input_file, fields.trajectories.empty() ? "data" : fields.trajectories[0].file,
           "grid {}, expected that of the training data, {}", to_string(fields.grid()),
           to_string(data.grid()));
    }
    split.samples = list_samples(fields, {0, static_cast<Index>(fields.trajectories.size())},
                                 {0, std::numeric_limits<Index>::max()}, data.spec.longest_lag());
  }
}

void open_ranges(const Deck& deck, DataSet& data, bool by_time) {
  const FieldSourcePtr source = open_source(deck, deck.get<std::vector<std::string>>("data.path"));
  const FieldSet& fields = source->fields();
  data.spec = sample_spec(deck, fields);
  Index longest = 0;
  for (const Trajectory& t : fields.trajectories) longest = std::max(longest, t.steps);
  const auto trajectories = static_cast<Index>(fields.trajectories.size());
  for (int i = 0; i < 3; ++i) {
    data.splits[i].source = source;
    const Range range =
        split_range(deck, "data.split." + std::string(kSplitNames[i]), by_time ? longest : trajectories);
    data.splits[i].samples = list_samples(fields, by_time ? Range{0, trajectories} : range,
                                          by_time ? range : Range{0, longest}, data.spec.longest_lag());
  }
}

}  // namespace

void describe_data(Section& s) {
  s.selector("format").defaults("well").help("what the files look like");
  s.variant(
      "well", [](Section&) {}, "The Well's layout, which `tessera simulate` writes");
  s.variant(
      "hdf5",
      [](Section& v) {
        v.choice("join", {"sample", "time"}).defaults("sample").help("what several files are to each other");
        v.texts("dims").help(
            "meaning of the datasets' dimensions: sample, time, channel, =N (take index N), or a grid axis's "
            "name");
        v.sections("variables", describe_variable)
            .length(1, 1024)
            .help("the datasets that hold the channels");
        v.text("time").defaults("").help("dataset of the times; default: the dimension scale");
        v.map("edges", SchemaKey::item(KeyType::choice).choices({"wall", "open", "periodic"}))
            .empty()
            .help("grid axis: what lies beyond its ends; default open");
      },
      "NetCDF-4 or plain HDF5, described here");
  s.texts("path").single_allowed().length(1, 4096).help("files or folders");
  s.section("bad_values", describe_bad_values).help("what to do with values that are no numbers");
  s.texts("fields").empty().help("channels to predict; default: all that vary in time");
  s.section("inputs", describe_inputs).help("what the model sees");
  s.section("output", describe_output).help("what the model's output is added to");
  s.choice("normalise", {"standard", "none"})
      .defaults("standard")
      .help("(x - mean) / std over the training steps");
  s.section("split", describe_split).help("training, validation and test samples");
  s.integer("cache")
      .min(0)
      .defaults(Index{256})
      .unit("MiB")
      .help("time steps kept in memory, per rank and split");
}

InlineVector<Boundary> DataSet::boundaries() const {
  InlineVector<Boundary> result;
  for (const GridAxis& axis : fields().axes) {
    const bool periodic = axis.edges[0] == EdgeKind::periodic && axis.edges[1] == EdgeKind::periodic;
    result.push_back(periodic ? Boundary::periodic : Boundary::zero);
  }
  return result;
}

DataSet open_data(const Deck& deck) {
  DataSet data;
  const auto type = deck.get<std::string>("data.split.type");
  if (type == "folders") {
    open_folders(deck, data);
  } else {
    open_ranges(deck, data, type == "time");
  }
  for (const std::string& name : data.spec.fields) data.fields().channel(name);
  for (const std::string& name : data.spec.constants) data.fields().channel(name);
  if (deck.has("data.output.seasonal")) {
    data.seasonal = Harmonics{deck.get<double>("data.output.seasonal.period"),
                              deck.get<Index>("data.output.seasonal.harmonics")};
  }
  data.normalise = deck.get<std::string>("data.normalise") == "standard";
  data.cache_bytes = static_cast<std::size_t>(deck.get<Index>("data.cache")) << 20;
  if (data.split(SplitName::train).samples.empty()) {
    throw deck.error("data.split", "no training sample: the longest lag is {} steps",
                     data.spec.longest_lag());
  }
  return data;
}

}  // namespace tessera
