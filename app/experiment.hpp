#pragma once

#include <memory>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "app/data_deck.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "solver/train/surrogate.hpp"

namespace tessera {

/// The keys that say what is learned from what: sections `data` and `model`.
void describe_experiment(Section& section);

/// A data set, the model that learns it, and how both lie on a mesh.
struct Experiment {
  Mesh mesh, domain;
  DataSet data;
  Layout grid;  ///< (1, *grid, 1) over the domain mesh
  DataNormalisation normalisation;
  std::shared_ptr<Surrogate> surrogate;
  std::shared_ptr<SampleMaker> makers[3];  ///< by SplitName; null where the split has no data

  SampleMaker& maker(SplitName split) const { return *makers[static_cast<int>(split)]; }
};

/// `deck` has the sections `data` and `model`, `mesh_deck` the section `mesh`. The normalisation is measured
/// unless it is known. Collective.
Experiment make_experiment(const Deck& deck, const Deck& mesh_deck, const CommPtr& world, std::uint64_t seed,
                           const std::optional<DataNormalisation>& known = std::nullopt);
/// The same experiment, freshly drawn, with the grid cut otherwise on the same mesh. Collective.
Experiment make_experiment(const Deck& deck, const Experiment& like, const Layout& grid, std::uint64_t seed);

/// The state that `tessera train` saves with its checkpoints: deck, normalisation, best_loss, best_step and
/// updates. Throws Error(input_file) where it is none.
nlohmann::json training_state(const Checkpoint& checkpoint);

/// Text for JSON state and back.
std::string to_json(const DataNormalisation& normalisation);
DataNormalisation normalisation_from_json(const std::string& text);

}  // namespace tessera
