#include <algorithm>
#include <cstdio>

#include <spdlog/spdlog.h>

#include "app/bench/models.hpp"
#include "app/bench/report.hpp"
#include "app/bench/suite.hpp"
#include "app/commands.hpp"
#include "app/text_table.hpp"
#include "io/agree.hpp"
#include "io/atomic_file.hpp"

namespace tessera {
namespace {

using namespace bench;

constexpr const char* kWhere = "bench";

DType precision_of(const std::string& name) {
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    if (name == name_of(type)) return type;
  }
  fail(ExitCode::internal, kWhere, "unknown precision '{}'", name);
}

/// What is varied; an empty list: the kind's, or the model's, own.
struct Sweep {
  std::vector<const Kind*> kinds;
  std::vector<std::string> models;
  std::vector<Index> sizes;
  std::vector<DType> precisions;
  std::vector<int> ranks;
  std::vector<std::string> partitions;

  std::vector<Case> cases() const {
    std::vector<Case> all;
    for (const Kind* kind : kinds) {
      if (kind->messages && *std::max_element(ranks.begin(), ranks.end()) == 1)
        fail(ExitCode::usage, kWhere, "{} needs two ranks: start with mpirun -n 2", kind->name);
      for (const std::string& model : kind->models ? models : std::vector<std::string>{""}) {
        for (const Index size : sizes_of(*kind, model)) {
          for (const DType precision : precisions_of(*kind)) add_ranks({kind, model, size, precision}, all);
        }
      }
    }
    return all;
  }

 private:
  std::vector<Index> sizes_of(const Kind& kind, const std::string& model) const {
    if (!sizes.empty()) return sizes;
    return kind.models ? std::vector<Index>{find_model(model).size} : kind.sizes;
  }

  std::vector<DType> precisions_of(const Kind& kind) const {
    if (precisions.empty()) return {kind.precisions.front()};
    for (const DType wanted : precisions) {
      if (std::find(kind.precisions.begin(), kind.precisions.end(), wanted) != kind.precisions.end())
        continue;
      std::string known;
      for (const DType p : kind.precisions) known += (known.empty() ? "" : " | ") + std::string(name_of(p));
      fail(ExitCode::usage, kWhere, "{} has no precision {}: expected {}", kind.name, name_of(wanted), known);
    }
    return precisions;
  }

  /// One rank is not cut: it makes one row whatever the partitions, and none where it has nobody to talk to.
  void add_ranks(Case c, std::vector<Case>& all) const {
    for (const int r : ranks) {
      if (r == 1 && c.kind->messages) continue;
      c.ranks = r;
      bool any = false;
      for (const std::string& partition : partitions) {
        c.ddp = partition == "ddp" && r > 1;
        c.uneven = partition == "uneven" && r > 1;
        if ((c.ddp && !c.kind->ddp) || (r == 1 && any)) continue;
        all.push_back(c);
        any = true;
      }
    }
  }
};

/// 1, 2, 4, ... and all.
std::vector<int> default_ranks(int all) {
  std::vector<int> ranks;
  for (int r = 1; r < all; r *= 2) ranks.push_back(r);
  ranks.push_back(all);
  return ranks;
}

Sweep read_sweep(const Deck& options, const std::vector<std::string>& names, int world) {
  Sweep sweep;
  for (const std::string& name : names) sweep.kinds.push_back(&find_kind(name));
  sweep.models = options.get<std::vector<std::string>>("model");
  for (const std::string& model : sweep.models) find_model(model);
  sweep.sizes = options.get<std::vector<Index>>("sizes");
  for (const std::string& p : options.get<std::vector<std::string>>("precision")) {
    sweep.precisions.push_back(precision_of(p));
  }
  sweep.ranks = options.get<std::vector<int>>("ranks");
  if (sweep.ranks.empty()) sweep.ranks = default_ranks(world);
  const int most = *std::max_element(sweep.ranks.begin(), sweep.ranks.end());
  if (most > world) {
    fail(ExitCode::usage, kWhere, "--ranks: found {}, but there are {}: start with mpirun -n {}", most, world,
         most);
  }
  sweep.partitions = options.get<std::vector<std::string>>("partition");
  return sweep;
}

/// The suite chooses what it measures.
void refuse_beside_suite(const CommandLine& line) {
  if (!line.files.empty())
    fail(ExitCode::usage, kWhere, "--suite takes no kinds: found '{}'", line.files.front());
  for (const std::string& override : line.overrides) {
    const std::string name = override.substr(0, override.find('='));
    const auto taken = {"suite", "quick", "repeats", "folder", "json"};
    if (std::find(taken.begin(), taken.end(), name) == taken.end())
      fail(ExitCode::usage, kWhere, "--suite goes with --quick, --repeats, --folder and --json, found {}",
           name);
  }
}

RunnerOptions read_runner_options(const Deck& options) {
  RunnerOptions r;
  r.measure.repeats = options.get<int>("repeats");
  r.folder = options.get<std::string>("folder");
  r.communication = options.get<bool>("comm_stats");
  if (const auto save = options.find<std::string>("save_case")) r.save = *save;
  return r;
}

int suite_command(const CommPtr& world, const CommandLine& line, const Deck& options) {
  refuse_beside_suite(line);
  const bool quick = options.get<bool>("quick");
  RunnerOptions runner_options = read_runner_options(options);
  if (quick && runner_options.measure.repeats == 0) runner_options.measure.repeats = 1;
  Runner runner(world, runner_options);
  const SuiteResult result = run_suite(runner, quick);
  run_on_root(*world, [&] {
    if (!line.quiet)
      std::fputs((machine_text(world->size()) + "\n" +
                  (quick ? "small sizes: the figures say nothing\n" : "") + figures_text(result.figures))
                     .c_str(),
                 stdout);
    if (const auto json = options.find<std::string>("json"))
      write_text_atomically(*json, json_text(result.rows, world->size(), result.figures));
  });
  return static_cast<int>(ExitCode::done);
}

}  // namespace

Schema bench_schema() {
  return Schema("Options of `tessera bench`", [](Section& s) {
    s.integers("sizes").single_allowed().min(1).empty().help("default: the kind's own");
    s.integers("ranks").single_allowed().min(1).empty().help(
        "use the first so many of the ranks that were started; default 1, 2, 4, ... and all");
    s.list("precision", SchemaKey::item(KeyType::choice).choices({"f32", "bf16", "f64"}))
        .single_allowed()
        .empty()
        .help("default: f32, of the stencil f64");
    s.list("partition", SchemaKey::item(KeyType::choice).choices({"even", "uneven", "ddp"}))
        .single_allowed()
        .length(1, 3)
        .defaults(std::vector<std::string>{"even"})
        .help(
            "what several ranks share: even or uneven (3 : 2) parts of one problem; or, in train-step, ddp: "
            "a sample each");
    s.texts("model")
        .single_allowed()
        .length(1, 16)
        .defaults(std::vector<std::string>{"vit", "convnet"})
        .help("of train-step and predict-step");
    s.integer("repeats").min(0).defaults(Index{0}).help("0: as many as fit into a second, at least 5");
    s.text("folder").defaults(".").help("where io-write and io-read put their files; they are removed");
    s.boolean("comm_stats").defaults(false).help("print each row's communication by operator");
    s.text("save_case")
        .optional()
        .help(
            "write the weights and samples with which a train-step starts into this folder (tests/peer reads "
            "them)");
    s.boolean("suite").defaults(false).help("the figures that the program is held to, against their marks");
    s.boolean("quick").defaults(false).help(
        "with --suite: small sizes and one repeat, to see that it runs; the figures say nothing");
    s.text("json").optional().help("write everything to this file, too");
    s.text("plot").optional().help("draw the rates as PNG");
  });
}

std::string bench_details() {
  TextTable table;
  for (const Kind& kind : kinds()) table.row({kind.name, kind.summary, "size: " + kind.size});
  std::string text = "Kinds:\n" + table.text() + "Models:\n";
  TextTable presets;
  for (const ModelPreset& model : models()) presets.row({model.name, model.summary});
  return text + presets.text();
}

int bench_command(const CommPtr& world, const CommandLine& line) {
  const Deck options = Deck::parse(bench_schema(), {}, line.overrides);
  if (options.get<bool>("suite")) return suite_command(world, line, options);
  if (options.get<bool>("quick")) fail(ExitCode::usage, kWhere, "--quick goes with --suite");
  if (line.files.empty())
    fail(ExitCode::usage, kWhere, "no kinds: expected tessera bench KIND ..., or --suite");
  const std::vector<Case> cases = read_sweep(options, line.files, world->size()).cases();
  Runner runner(world, read_runner_options(options));
  std::vector<Row> rows;
  for (const Case& c : cases) {
    rows.push_back(runner.run(c));
    if (world->rank() == 0) spdlog::debug("{}", table_text({rows.back()}));
  }
  run_on_root(*world, [&] {
    const auto json = options.find<std::string>("json"), picture = options.find<std::string>("plot");
    std::string text = machine_text(world->size()) + "\n" + table_text(rows);
    for (const Row& row : rows) {
      if (!row.communication.empty()) text += "\n" + table_text({row}) + row.communication;
    }
    if (!line.quiet) std::fputs(text.c_str(), stdout);
    if (json) write_text_atomically(*json, json_text(rows, world->size()));
    if (picture) write_plot(rows, *picture);
  });
  return static_cast<int>(ExitCode::done);
}

}  // namespace tessera
