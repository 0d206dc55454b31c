#include "app/experiment.hpp"

#include <nlohmann/json.hpp>

#include "app/mesh_deck.hpp"
#include "app/model_deck.hpp"

namespace tessera {

void describe_experiment(Section& s) {
  s.section("data", describe_data).help("files, splits, and what a sample is made of");
  s.section("model", describe_model).help("the network");
}

namespace {

/// The model, and who makes its samples, of an experiment whose data, grid and normalisation are known.
void add_model(Experiment& e, const Deck& model, std::uint64_t seed) {
  const ModelConfig config = model_config(model, e.data.grid(), e.data.boundaries(),
                                          e.data.spec.input_channels(), e.data.spec.output_channels());
  std::shared_ptr<SeasonalTerm> seasonal;
  if (e.data.seasonal) {
    seasonal = std::make_shared<SeasonalTerm>(*e.data.seasonal,
                                              e.grid.with_extent(-1, e.data.spec.output_channels()));
  }
  e.surrogate = std::make_shared<Surrogate>(make_model(config, seed), seasonal);
  for (int i = 0; i < 3; ++i) {
    if (!e.data.splits[i].source) continue;
    e.makers[i] = std::make_shared<SampleMaker>(e.data.splits[i].source, e.data.spec, e.normalisation.fields,
                                                e.normalisation.constants, e.grid, e.data.cache_bytes);
  }
}

}  // namespace

Experiment make_experiment(const Deck& deck, const Deck& mesh_deck, const CommPtr& world, std::uint64_t seed,
                           const std::optional<DataNormalisation>& known) {
  Experiment e;
  e.mesh = make_mesh(mesh_deck, world);
  e.domain = e.mesh.without("ddp");
  e.data = open_data(deck);
  const Shape grid = e.data.grid();
  const Deck model = deck.section("model");
  e.grid = grid_layout(mesh_deck, e.domain, grid, patch_of(model, grid.size()));
  e.normalisation = known ? *known : measure_normalisation(e.data, e.mesh, e.grid);
  add_model(e, model, seed);
  return e;
}

Experiment make_experiment(const Deck& deck, const Experiment& like, const Layout& grid, std::uint64_t seed) {
  Experiment e;
  e.mesh = like.mesh;
  e.domain = like.domain;
  e.data = open_data(deck);
  e.grid = grid;
  e.normalisation = like.normalisation;
  add_model(e, deck.section("model"), seed);
  return e;
}

nlohmann::json training_state(const Checkpoint& checkpoint) {
  nlohmann::json state = nlohmann::json::parse(checkpoint.state());
  for (const char* key : {"deck", "normalisation", "best_loss", "best_step", "updates"}) {
    if (state.is_object() && state.contains(key)) continue;
    fail(ExitCode::input_file, checkpoint.folder().string(),
         "not a checkpoint of a training run: its state has no '{}'", key);
  }
  return state;
}

std::string to_json(const DataNormalisation& n) {
  return nlohmann::json{{"fields", {{"mean", n.fields.mean}, {"std", n.fields.std}}},
                        {"constants", {{"mean", n.constants.mean}, {"std", n.constants.std}}}}
      .dump();
}

DataNormalisation normalisation_from_json(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  const auto part = [&](const char* name) {
    return Normalisation{json.at(name).at("mean").get<std::vector<double>>(),
                         json.at(name).at("std").get<std::vector<double>>()};
  };
  return {part("fields"), part("constants")};
}

}  // namespace tessera
