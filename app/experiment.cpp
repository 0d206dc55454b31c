#include "app/experiment.hpp"

#include <nlohmann/json.hpp>

#include "app/mesh_deck.hpp"
#include "app/model_deck.hpp"

namespace tessera {

void describe_experiment(Section& s) {
  s.section("data", describe_data).help("files, splits, and what a sample is made of");
  s.section("model", describe_model).help("the network");
}

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
  const ModelConfig config = model_config(model, grid, e.data.boundaries(), e.data.spec.input_channels(),
                                          e.data.spec.output_channels());
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
