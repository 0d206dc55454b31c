#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "app/commands.hpp"
#include "app/experiment.hpp"
#include "app/forecast_files.hpp"
#include "app/mesh_deck.hpp"
#include "app/progress.hpp"
#include "app/train_deck.hpp"
#include "io/agree.hpp"
#include "solver/train/rollout.hpp"
#include "solver/train/training_checkpoint.hpp"

namespace tessera {
namespace {

void describe_predict(Section& s) {
  s.text("run").help("folder of a training run (its best weights are taken), or of one checkpoint");
  s.texts("data_path").single_allowed().empty().help("other files than those that the model was trained on");
  s.choice("split", {"train", "valid", "test"})
      .defaults("test")
      .help("forecasts start at the samples of this split");
  s.integers("starts").single_allowed().empty().min(0).unit("steps").help(
      "first predicted steps, in every trajectory of the split; default: every sample with data for all lead "
      "times");
  s.integer("every").min(1).defaults(Index{1}).help("take every n-th start");
  s.integer("steps").min(1).defaults(Index{1}).help("lead times: how far each forecast goes");
  s.list("baselines", SchemaKey::item(KeyType::choice).choices({"persistence", "climatology"}))
      .empty()
      .help(
          "forecasts to compare with: the last known step, and the mean of the known steps at the same "
          "time of the cycle");
  s.integer("climatology_period").min(1).defaults(Index{12}).unit("steps").help("length of the cycle");
  s.integer("deflate").range(0, 9).defaults(Index{0}).help("compression of the files");
}

/// One forecast: its first predicted step is `first`.
struct Start {
  Index trajectory, first;
};

/// Mean over the known steps at each step of the cycle, for this rank's box: all steps of the trajectories
/// that were trained on, of those that are forecast themselves only the steps before the first forecast.
class Climatology {
 public:
  Climatology(const DataSet& data, const Split& forecast, const std::vector<Start>& starts,
              std::span<const int> channels, const Box& box, Index period)
      : period_(period) {
    const Split& training = data.split(SplitName::train);
    std::map<Index, Index> known;  // trajectory -> steps
    for (const SampleId& s : training.samples) {
      known[s.trajectory] =
          training.source->fields().trajectories[static_cast<std::size_t>(s.trajectory)].steps;
    }
    for (const Start& start : starts) {
      const auto found = known.find(start.trajectory);
      if (forecast.source == training.source && found != known.end()) {
        found->second = std::min(found->second, start.first);
      }
    }
    Index longest = 0;
    for (const auto& [trajectory, steps] : known) longest = std::max(longest, steps);
    if (longest < period) {
      fail(ExitCode::usage, "predict.climatology_period", "found {}, expected at most the {} known steps",
           period, longest);
    }
    const std::size_t n = static_cast<std::size_t>(box.volume()) * channels.size();
    std::vector<std::vector<double>> sums(static_cast<std::size_t>(period), std::vector<double>(n, 0.0));
    std::vector<Index> counts(static_cast<std::size_t>(period), 0);
    std::vector<float> values(n);
    for (const auto& [trajectory, steps] : known) {
      for (Index t = 0; t < steps; ++t) {
        training.source->read(trajectory, t, channels, box, values.data());
        const auto phase = static_cast<std::size_t>(t % period);
        ++counts[phase];
        for (std::size_t i = 0; i < n; ++i) sums[phase][i] += static_cast<double>(values[i]);
      }
    }
    for (std::size_t p = 0; p < sums.size(); ++p) {
      means_.emplace_back(n);
      for (std::size_t i = 0; i < n; ++i) {
        means_[p][i] = static_cast<float>(sums[p][i] / static_cast<double>(counts[p]));
      }
    }
  }
  const std::vector<float>& at(Index step) const { return means_[static_cast<std::size_t>(step % period_)]; }

 private:
  Index period_;
  std::vector<std::vector<float>> means_;
};

std::filesystem::path checkpoint_folder(Communicator& world, const Deck& deck) {
  const std::filesystem::path run = deck.get<std::string>("predict.run");
  std::string found;
  run_on_root(world, [&] {
    for (const std::filesystem::path& root : {run / "best", run / "checkpoints"}) {
      const auto checkpoints = list_checkpoints(root);
      if (!checkpoints.empty() && found.empty()) found = checkpoints.front().string();
    }
    if (found.empty() && std::filesystem::exists(run / "manifest.json")) found = run.string();
    if (found.empty()) {
      fail(ExitCode::input_file, run.string(),
           "no checkpoint here: expected the folder of a training run or a checkpoint");
    }
  });
  return world.broadcast_text(found);
}

class Prediction {
 public:
  Prediction(Run& run) : run_(run), deck_(run.deck()), checkpoint_(checkpoint_folder(*run.world(), deck_)) {
    const nlohmann::json state = training_state(checkpoint_);
    std::vector<std::string> overrides;
    if (const auto paths = deck_.get<std::vector<std::string>>("predict.data_path"); !paths.empty()) {
      overrides.push_back("data.path=" + nlohmann::json(paths).dump());
    }
    const DeckText trained{checkpoint_.folder().string(), state.at("deck").get<std::string>()};
    const Deck trained_deck = Deck::parse(train_schema(), {trained}, overrides);
    experiment_ = make_experiment(trained_deck, deck_, run.world(), 0,
                                  normalisation_from_json(state.at("normalisation").dump()));
    load_tensors(checkpoint_, weights());
    split_ = deck_.choose<SplitName>(
        "predict.split",
        {{"train", SplitName::train}, {"valid", SplitName::valid}, {"test", SplitName::test}});
    steps_ = deck_.get<Index>("predict.steps");
    if (!experiment_.makers[static_cast<int>(split_)])
      throw deck_.error("predict.split", "the data have no such split");
    list_starts();
  }

  void describe() const {
    run_.say(fmt::format("weights  {} (update {})", checkpoint_.folder().string(), checkpoint_.step()));
    run_.say(fmt::format("mesh     {}", to_string(experiment_.mesh)));
    run_.say(fmt::format("forecast {} starts of {} steps on the {} split", starts_.size(), steps_,
                         kSplitNames[static_cast<int>(split_)]));
  }

  void forecast() {
    const std::size_t groups = static_cast<std::size_t>(experiment_.mesh.axis_size("ddp"));
    const std::size_t group =
        static_cast<std::size_t>(experiment_.mesh.coords()[experiment_.mesh.axis("ddp")]);
    const std::size_t begin = starts_.size() * group / groups, end = starts_.size() * (group + 1) / groups;
    const std::vector<Start> own(starts_.begin() + static_cast<std::ptrdiff_t>(begin),
                                 starts_.begin() + static_cast<std::ptrdiff_t>(end));
    for (const std::string& name : folders()) {
      run_on_root(*run_.world(), [&] { std::filesystem::create_directories(run_.folder() / name); });
    }
    for (const char* name : {"prediction", "truth", "persistence", "climatology"}) {
      run_on_root(*run_.world(), [&] { remove_numbered_outputs(run_.folder() / name, "part_"); });
    }
    const Provenance provenance = run_.provenance(experiment_.mesh, experiment_.grid);
    // Groups have different numbers of starts, perhaps none: they wait for each other as long as it takes.
    const CommPtr all = run_.world()->split(0, run_.world()->rank(), "groups");
    all->set_timeout(std::chrono::hours(24 * 365));
    if (!own.empty()) write_group(own, static_cast<int>(group), provenance);
    all->barrier();
  }

  std::vector<std::string> folders() const {
    std::vector<std::string> names{"prediction", "truth"};
    for (const std::string& name : deck_.get<std::vector<std::string>>("predict.baselines"))
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    return names;
  }

 private:
  const FieldSet& fields() const { return experiment_.data.split(split_).source->fields(); }

  /// The parameters under the names of what a forecast uses: their moving averages where the checkpoint has
  /// them.
  std::vector<NamedTensor> weights() const {
    std::vector<NamedTensor> all = experiment_.surrogate->parameters();
    for (NamedTensor& p : all) {
      if (checkpoint_.has("average." + p.name)) p.name = "average." + p.name;
    }
    return all;
  }

  void list_starts() {
    const auto wanted = deck_.get<std::vector<Index>>("predict.starts");
    std::vector<Start> all;
    for (const SampleId& s : experiment_.data.split(split_).samples) {
      const Index known = fields().trajectories[static_cast<std::size_t>(s.trajectory)].steps;
      const bool asked = std::find(wanted.begin(), wanted.end(), s.step) != wanted.end();
      if (wanted.empty() ? s.step + steps_ <= known : asked) all.push_back({s.trajectory, s.step});
    }
    const auto every = deck_.get<std::size_t>("predict.every");
    for (std::size_t i = 0; i < all.size(); i += every) starts_.push_back(all[i]);
    if (starts_.empty()) throw deck_.error("predict.starts", "no sample of the split fits");
  }

  FieldFileSpec file_spec(const std::vector<Start>& own, const FieldOrder& order,
                          const Provenance& provenance) const {
    FieldFileSpec spec;
    spec.dataset_name = fields().name;
    spec.time_unit = fields().time_unit;
    spec.axes = fields().axes;
    spec.fields = order.fields;
    spec.trajectories = static_cast<Index>(own.size());
    spec.expected_steps = steps_;
    spec.deflate = deck_.get<int>("predict.deflate");
    spec.provenance = provenance;
    OutputScalar first{"start_step", {}}, trajectory{"start_trajectory", {}};
    for (const Start& start : own) {
      first.values.push_back(static_cast<double>(start.first));
      trajectory.values.push_back(static_cast<double>(start.trajectory));
    }
    spec.scalars = {first, trajectory};
    return spec;
  }

  double time_of(const Start& start, Index step) const {
    const std::vector<double>& times =
        *fields().trajectories[static_cast<std::size_t>(start.trajectory)].times;
    const auto last = static_cast<Index>(times.size()) - 1;
    if (step <= last) return times[static_cast<std::size_t>(step)];
    const double dt = last > 0 ? times.back() - times[times.size() - 2] : 1.0;
    return times.back() + static_cast<double>(step - last) * dt;
  }

  void write_group(const std::vector<Start>& own, int group, const Provenance& provenance) {
    FieldSource& source = *experiment_.data.split(split_).source;
    SampleMaker& maker = experiment_.maker(split_);
    std::vector<int> channels;
    for (const std::string& name : experiment_.data.spec.fields) channels.push_back(fields().channel(name));
    const Box& whole = experiment_.grid.local_box();
    const Box box(whole.begin() + 1, whole.end() - 1);
    const FieldOrder order = field_order(fields(), experiment_.data.spec.fields);
    const FieldFileSpec spec = file_spec(own, order, provenance);
    std::map<std::string, std::unique_ptr<ForecastFile>> files;
    for (const std::string& name : folders()) {
      files[name] = std::make_unique<ForecastFile>(experiment_.domain.comm_ptr(), run_.folder() / name, group,
                                                   spec, order, box);
    }
    std::optional<Climatology> climatology;
    if (files.contains("climatology")) {
      climatology.emplace(experiment_.data, experiment_.data.split(split_), starts_, channels, box,
                          deck_.get<Index>("predict.climatology_period"));
    }
    std::vector<float> values(static_cast<std::size_t>(box.volume()) * channels.size()), last = values;
    Progress progress("predict", static_cast<Index>(own.size()), run_.is_root() && !run_.line().quiet);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto trajectory = static_cast<Index>(i);
      source.read(own[i].trajectory, own[i].first - 1, channels, box, last.data());
      Rollout rollout(*experiment_.surrogate, maker, own[i].trajectory, own[i].first);
      for (Index k = 0; k < steps_; ++k) {
        const Index step = own[i].first + k;
        const double time = time_of(own[i], step);
        files["prediction"]->append(trajectory, time, rollout.next());
        if (files.contains("persistence")) files["persistence"]->append(trajectory, time, last);
        if (climatology) files["climatology"]->append(trajectory, time, climatology->at(step));
        if (step < fields().trajectories[static_cast<std::size_t>(own[i].trajectory)].steps) {
          source.read(own[i].trajectory, step, channels, box, values.data());
          files["truth"]->append(trajectory, time, values);
        }
      }
      progress.update(trajectory + 1, {});
    }
    progress.finish();
    for (auto& [name, file] : files) file->close();
  }

  Run& run_;
  const Deck& deck_;
  Checkpoint checkpoint_;
  Experiment experiment_;
  SplitName split_ = SplitName::test;
  Index steps_ = 1;
  std::vector<Start> starts_;
};

}  // namespace

Schema predict_schema() {
  return Schema("A deck of `tessera predict`", [](Section& s) {
    s.section("mesh", [](Section& m) { describe_mesh(m, false); }).help("how ranks share the work");
    s.section("predict", describe_predict).help("what is forecast from where");
  });
}

int predict(const CommPtr& world, const CommandLine& line) {
  if (line.restart)
    fail(ExitCode::usage, "command line", "-r: a forecast has no checkpoints; --force makes it anew");
  Run run(world, line, predict_schema());
  Prediction prediction(run);
  prediction.describe();
  if (line.dry_run) return static_cast<int>(ExitCode::done);
  run.open_folder();
  prediction.forecast();
  for (const std::string& name : prediction.folders())
    run.say(fmt::format("wrote    {}", (run.folder() / name).string()));
  return static_cast<int>(ExitCode::done);
}

}  // namespace tessera
