#pragma once

#include <memory>
#include <vector>

#include "parallel/gradient_reducer.hpp"
#include "parallel/mesh.hpp"
#include "solver/nn/module.hpp"

namespace tessera {

/// Replicates a model over a mesh of ddp groups x domain ranks. Construction compares the parameters' names,
/// shapes and types over all ranks and broadcasts the first rank's values; from then on gradients live in the
/// reducer's buckets, where they are averaged over ddp and summed over domain while the backward pass still
/// runs.
class DataParallel {
 public:
  /// `mesh` has an axis "ddp"; all its other axes are domain axes. Collective.
  DataParallel(const Mesh& mesh, std::vector<NamedTensor> parameters, GradientReducerOptions options = {});
  /// Starts an update: gradients are zero and accumulate.
  void zero_grad();
  /// Whether the next backward pass is the last of the update, whose gradients are reduced as they become
  /// complete.
  void set_last(bool last) { *last_ = last; }
  /// Ends the update: all gradients are reduced and in place.
  void finish();

 private:
  void add_reducer(const CommPtr& comm, const Mesh& domain, int ddp,
                   const std::vector<NamedTensor>& parameters, const GradientReducerOptions& options);

  std::vector<Tensor> parameters_;
  std::vector<std::shared_ptr<GradientReducer>> reducers_;  ///< of plain parameters, and of sharded ones
  std::shared_ptr<bool> last_ = std::make_shared<bool>(true);
};

/// Copies every parameter's values from the first rank that holds them to the others. Collective over the
/// mesh.
void broadcast_parameters(const Mesh& mesh, const std::vector<NamedTensor>& parameters);

}  // namespace tessera
