#include <algorithm>

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "app/commands.hpp"
#include "app/mesh_deck.hpp"
#include "app/progress.hpp"
#include "app/simulate_deck.hpp"
#include "io/agree.hpp"
#include "io/fields/background_field_writer.hpp"
#include "solver/tensor/operator_clock.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSplits[] = {"train", "valid", "test"};

void describe_split(Section& s) {
  for (const char* split : kSplits) {
    s.integer(split).min(0).defaults(Index{0}).help("trajectories in this folder");
  }
}

void describe_output(Section& s) {
  s.integer("trajectories").range(1, 99999).defaults(Index{1}).help("runs from different initial states");
  s.section("split", describe_split)
      .optional()
      .help("how many go to data/train, data/valid, data/test, in this order; default: all to data/train");
  s.text("name").defaults("shallow_water").help("of the data set, in the files");
  s.choice("fields", {"momentum", "velocity"}).defaults("velocity").help("written besides the height");
  s.choice("precision", {"single", "double"}).defaults("single").help("in the files");
  s.integer("deflate").range(0, 9).defaults(Index{0}).help("compression level; 0: none");
}

/// What the deck asks for, shared out over the mesh.
struct Plan {
  WaterDeck water;
  Mesh mesh, domain;
  Layout grid;   ///< (1, ny, nx, 1) over `domain`
  Layout state;  ///< (1, ny, nx, 3)
  Index trajectories = 0;
  Index split[3] = {0, 0, 0};
};

Plan make_plan(const Run& run) {
  const Deck& deck = run.deck();
  Plan plan;
  plan.water = read_water(deck.section("simulate"));
  plan.trajectories = deck.get<Index>("output.trajectories");
  plan.split[0] = plan.trajectories;
  if (const auto split = deck.find_section("output.split")) {
    Index sum = 0;
    for (int i = 0; i < 3; ++i) sum += plan.split[i] = split->get<Index>(kSplits[i]);
    if (sum != plan.trajectories) {
      throw deck.error("output.split", "the parts' sum is {}, expected the {} trajectories", sum,
                       plan.trajectories);
    }
  }
  plan.mesh = make_mesh(deck, run.world());
  plan.domain = plan.mesh.without("ddp");
  const ShallowWaterOptions& o = plan.water.options;
  plan.grid = grid_layout(deck, plan.domain, {o.ny, o.nx}, {1, 1});
  plan.state = plan.grid.with_extent(-1, 3);
  return plan;
}

fs::path file_of(const Run& run, const Plan& plan, Index trajectory) {
  int split = 0;
  for (Index end = plan.split[0]; trajectory >= end && split < 2;) end += plan.split[++split];
  return run.folder() / "data" / kSplits[split] / fmt::format("trajectory_{:05}.hdf5", trajectory);
}

/// Bytes of one output step in the file.
double step_bytes(const Deck& deck, const ShallowWaterOptions& o) {
  const double size = deck.get<std::string>("output.precision") == "double" ? 8 : 4;
  return 3 * size * static_cast<double>(o.ny) * static_cast<double>(o.nx);
}

/// Jobs that wait for the writer thread. The first step brings three: none of them may wait for a rank that
/// fails before it brings its own.
constexpr std::size_t kWritesWaiting = 2;

/// Bytes that the solver and the output of one step hold for a box of h x w cells: three states, the ghosts
/// of one, the bed without and with ghosts, and the copies on their way to the file.
double solver_bytes(const ShallowWaterOptions& o, Shape cells) {
  const double own = static_cast<double>(cells[0]) * static_cast<double>(cells[1]);
  const double padded = own > 0 ? static_cast<double>(cells[0] + 4) * static_cast<double>(cells[1] + 4) : 0;
  return static_cast<double>(size_of(o.precision)) * (7 * own + 4 * padded) +
         static_cast<double>(4 + kWritesWaiting) * 8 * 3 * own;
}

/// Bytes of ghost cells that a box of h x w cells gets in one time step: two stages, two rows on each cut
/// side.
double halo_bytes(const Plan& plan, Shape cells) {
  if (count(cells) == 0) return 0;
  const bool cut_y = plan.grid.is_sharded(1) && plan.domain.axis_size(plan.grid.mesh_axis_of(1)) > 1;
  const bool cut_x = plan.grid.is_sharded(2) && plan.domain.axis_size(plan.grid.mesh_axis_of(2)) > 1;
  const auto h = static_cast<double>(cells[0]), w = static_cast<double>(cells[1]);
  const double ghosts = (cut_y ? 4 * w : 0) + (cut_x ? 4 * h : 0) + (cut_y && cut_x ? 16 : 0);
  return 2 * 3 * static_cast<double>(size_of(plan.water.options.precision)) * ghosts;
}

void print_plan(const Run& run, const Plan& plan) {
  const ShallowWaterOptions& o = plan.water.options;
  const Index groups = plan.mesh.axis_size("ddp");
  run.say(fmt::format("mesh          {}", to_string(plan.mesh)));
  run.say(fmt::format("grid          {} x {} cells (y, x), {} trajectories of {} output steps, {} at a time",
                      o.ny, o.nx, plan.trajectories, plan.water.steps, std::min(groups, plan.trajectories)));
  run.say("rank  cells (y, x)            memory MB  received kB/step");
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    const int in_domain = rank % plan.domain.size();  // the axis ddp is the slowest
    const Box box = plan.grid.box(in_domain);
    const Shape cells{box[1].size(), box[2].size()};
    run.say(fmt::format("{:4}  {:22}  {:9.3f}  {:16.3f}", rank, to_string(Box{box[1], box[2]}),
                        solver_bytes(o, cells) / 1e6, halo_bytes(plan, cells) / 1e3));
  }
  const double total = step_bytes(run.deck(), o) * static_cast<double>(plan.water.steps * plan.trajectories);
  run.say(fmt::format("output        {:.3f} MB before compression, in {}", total / 1e6,
                      (run.folder() / "data").string()));
}

FieldFileSpec file_spec(const Run& run, const Plan& plan, const ShallowWater& solver,
                        const Provenance& from) {
  const ShallowWaterOptions& o = plan.water.options;
  const auto edge = [](WaterSide side) {
    return side == WaterSide::wall   ? EdgeKind::wall
           : side == WaterSide::open ? EdgeKind::open
                                     : EdgeKind::periodic;
  };
  GridAxis y{"y", "m", {}, {edge(o.sides.y_low), edge(o.sides.y_high)}};
  GridAxis x{"x", "m", {}, {edge(o.sides.x_low), edge(o.sides.x_high)}};
  for (Index j = 0; j < o.ny; ++j) y.coordinates.push_back(solver.y(j));
  for (Index i = 0; i < o.nx; ++i) x.coordinates.push_back(solver.x(i));
  const Deck& deck = run.deck();
  FieldFileSpec spec;
  spec.dataset_name = deck.get<std::string>("output.name");
  spec.time_unit = "s";
  spec.axes = {std::move(y), std::move(x)};
  for (const WaterField& field : shallow_water_fields(deck.get<std::string>("output.fields") == "velocity")) {
    spec.fields.push_back({field.name, field.unit, field.components.empty() ? 0 : 1, true});
  }
  if (!o.bathymetry.hills.empty()) spec.fields.push_back({"bathymetry", "m", 0, false});
  spec.scalars = {{"gravity", {o.gravity}}};
  spec.expected_steps = plan.water.steps;
  spec.type = deck.get<std::string>("output.precision") == "double" ? DType::f64 : DType::f32;
  spec.deflate = deck.get<int>("output.deflate");
  for (const int dim : {1, 2}) {
    const Index extent = plan.grid.shape()[dim];
    spec.cuts.push_back(plan.grid.is_sharded(dim) ? plan.grid.partition(plan.grid.mesh_axis_of(dim))
                                                  : Partition::even(extent, 1));
  }
  spec.provenance = from;
  return spec;
}

/// This rank's cells (h, w, 3) as the files want them: height, then the vector along y, along x.
std::vector<double> output_values(const ShallowWater& solver, bool velocity) {
  std::vector<double> values = solver.output(velocity, DType::f64).to_host<double>();
  for (std::size_t i = 0; i + 2 < values.size(); i += 3) std::swap(values[i + 1], values[i + 2]);
  return values;
}

/// One trajectory of this rank's group, written step by step while the next step is computed.
class Simulation {
 public:
  Simulation(const Run& run, const Plan& plan, const Provenance& from, Index trajectory, WriterThread& thread)
      : plan_(plan),
        velocity_(run.deck().get<std::string>("output.fields") == "velocity"),
        solver_(plan.water.options, plan.state),
        writer_(thread, file_of(run, plan, trajectory).string(), file_spec(run, plan, solver_, from)) {
    const Box& whole = plan.grid.local_box();
    box_ = {whole[1], whole[2]};
    WaterStartOptions start = plan.water.start;
    start.trajectory = static_cast<std::uint64_t>(trajectory);
    set_initial_state(solver_, start);
    if (!plan.water.options.bathymetry.hills.empty()) {
      writer_.write_static(0, box_, solver_.bed().to_host<double>());
    }
  }

  void write_step(Index step) {
    solver_.advance_to(plan_.water.every * static_cast<double>(step));
    const OperatorTimer timer("write", false);
    writer_.append(0, solver_.time(), box_, output_values(solver_, velocity_));
  }

  /// Waits for the file; to be called once all ranks have written all steps.
  void close() { writer_.close(); }

  const ShallowWater& solver() const { return solver_; }

 private:
  const Plan& plan_;
  bool velocity_;
  ShallowWater solver_;
  BackgroundFieldWriter writer_;
  Box box_;
};

/// The trajectories whose files are not there yet; a file under its final name is complete.
std::vector<Index> missing_trajectories(const Run& run, const Plan& plan) {
  std::vector<std::int32_t> there(static_cast<std::size_t>(plan.trajectories), 0);
  run_on_root(*run.world(), [&] {
    for (Index t = 0; run.is_restart() && t < plan.trajectories; ++t) {
      const fs::path file = file_of(run, plan, t);
      if (!fs::exists(file)) continue;
      const Deck made_with =
          Deck::parse(simulate_schema(), {{file.string(), read_provenance(file.string())["resolved_deck"]}});
      if (made_with.section("simulate").resolved() != run.deck().section("simulate").resolved()) {
        fail(
            ExitCode::usage, file.string(),
            "was made with another section `simulate`: use the same deck, another folder with -d, or --force "
            "without -r");
      }
      there[static_cast<std::size_t>(t)] = 1;
    }
  });
  run.world()->broadcast(there.data(), plan.trajectories, DType::i32, 0);
  std::vector<Index> missing;
  for (Index t = 0; t < plan.trajectories; ++t) {
    if (there[static_cast<std::size_t>(t)] == 0) missing.push_back(t);
  }
  return missing;
}

/// Groups take trajectories in turn and go through their output steps together, so that all ranks poll alike.
/// Returns false if stopped early.
bool run_all(const Run& run, const Plan& plan, const std::vector<Index>& todo) {
  const auto groups = static_cast<std::size_t>(plan.mesh.axis_size("ddp"));
  const auto group = static_cast<std::size_t>(plan.mesh.coords()[plan.mesh.axis("ddp")]);
  const Provenance from = run.provenance(plan.mesh, plan.grid);
  StopControl control(run.world(), run.folder(), run.line().walltime);
  const auto rounds = static_cast<Index>((todo.size() + groups - 1) / groups);
  WriterThread thread(plan.domain.comm_ptr(), kWritesWaiting);
  Progress progress("simulate", rounds * plan.water.steps, run.is_root() && !run.line().quiet);
  for (Index round = 0; round < rounds; ++round) {
    const std::size_t mine = static_cast<std::size_t>(round) * groups + group;
    std::optional<Simulation> simulation;
    for (Index step = 0; step < plan.water.steps; ++step) {
      // A group that fails takes the others along, and all of them clear away their unfinished files.
      run_together(*run.world(), [&] {
        if (step == 0 && mine < todo.size()) simulation.emplace(run, plan, from, todo[mine], thread);
        if (simulation) simulation->write_step(step);
      });
      if (step + 1 == plan.water.steps) {
        run_together(*run.world(), [&] {
          if (simulation) simulation->close();
        });
      }
      if (simulation) {
        progress.update(round * plan.water.steps + step + 1,
                        {{"trajectory", std::to_string(todo[mine])},
                         {"time", fmt::format("{:.4g} s", simulation->solver().time())},
                         {"dt", fmt::format("{:.2g} s", simulation->solver().last_time_step())}});
      }
      const StopControl::Wish wish = control.poll();
      if (wish >= StopControl::Wish::checkpoint_and_stop &&
          (round + 1 < rounds || step + 1 < plan.water.steps)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

Schema simulate_schema() {
  return Schema("Deck of `tessera simulate`", [](Section& s) {
    s.section("simulate", describe_simulate).help("everything that the numbers depend on");
    s.section("output", describe_output).help("what is written");
    s.section("mesh", [](Section& m) { describe_mesh(m, false); }).help("how the ranks share the work");
  });
}

int simulate(const CommPtr& world, const CommandLine& line) {
  Run run(world, line, simulate_schema(), Resume::folder);
  const Plan plan = make_plan(run);
  if (line.dry_run) {
    print_plan(run, plan);
    return 0;
  }
  if (line.verbose) print_plan(run, plan);
  run.open_folder();
  const std::vector<Index> todo = missing_trajectories(run, plan);
  run_on_root(*world, [&] {
    for (const char* split : kSplits) {
      if (!run.is_restart()) remove_numbered_outputs(run.folder() / "data" / split, "trajectory_");
    }
    for (Index t : todo) fs::create_directories(file_of(run, plan, t).parent_path());
  });
  const bool complete = run_all(run, plan, todo);
  run.say(complete ? fmt::format("{} trajectories of {} steps in {}", plan.trajectories, plan.water.steps,
                                 (run.folder() / "data").string())
                   : "stopped early; complete trajectories are kept, continue with -r latest");
  return static_cast<int>(complete ? ExitCode::done : ExitCode::stopped_early);
}

}  // namespace tessera
