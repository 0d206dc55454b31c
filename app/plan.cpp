#include "app/plan.hpp"

#include <spdlog/spdlog.h>

#include "app/commands.hpp"
#include "app/mesh_deck.hpp"
#include "app/model_deck.hpp"
#include "app/recompute.hpp"
#include "app/train_deck.hpp"
#include "parallel/mesh_axes.hpp"

namespace tessera {
namespace {

Index states_of(const OptimizerOptions& o) {
  if (o.kind != OptimizerKind::sgd) return 2;  // two moments
  return o.momentum != 0 ? 1 : 0;
}

/// As many as the mesh multiplies to; `otherwise` where it leaves a size open.
int ranks_of_deck(const Deck& deck, int otherwise) {
  int ranks = deck.get<int>("mesh.ddp");
  for (const int size : deck.get<std::vector<int>>("mesh.domain"))
    ranks = size < 0 || ranks < 0 ? -1 : ranks * size;
  return ranks > 0 ? ranks : otherwise;
}

}  // namespace

TrainingPlan make_plan(const Deck& deck, const DataSet& data, int ranks) {
  const TrainerOptions options = trainer_options(deck, 1);
  const Deck model = deck.section("model");
  const Shape grid = data.grid();
  TrainingPlan p;
  p.axes = mesh_axes(deck, ranks);
  p.cuts = grid_cuts(deck, p.axes, grid, patch_of(model, grid.size()));
  for (const GridAxis& axis : data.fields().axes) p.axis_names.push_back(axis.name);
  p.model_type = model.get<std::string>("type");
  p.optimizer = deck.get<std::string>("train.optimizer.type");
  p.model =
      model_config(model, grid, data.boundaries(), data.spec.input_channels(), data.spec.output_channels());
  p.terms.base = data.spec.residual_lag > 0;
  p.terms.seasonal = data.seasonal ? 2 * data.seasonal->count + 1 : 0;
  p.accumulate = options.accumulate;
  p.optimizer_states = states_of(options.optimizer);
  p.average = options.average_decay > 0;
  for (const SplitName split : {SplitName::train, SplitName::valid}) {
    if (!data.split(split).source) continue;
    for (const Trajectory& t : data.split(split).source->fields().trajectories) p.steps += t.steps;
  }
  p.fields = data.spec.output_channels();
  p.cache_bytes = data.cache_bytes;
  return p;
}

int plan(const CommPtr& world, const CommandLine& line) {
  const Run run(world, line, train_schema());
  const DataSet data = open_data(run.deck());
  TrainingPlan plan =
      make_plan(run.deck(), data, line.ranks.value_or(ranks_of_deck(run.deck(), world->size())));
  plan.model.recompute = choose_recompute(run.deck(), plan, *world).blocks;
  if (run.is_root()) run.say(plan_text(plan));
  return static_cast<int>(ExitCode::done);
}

}  // namespace tessera
