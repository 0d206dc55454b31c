#pragma once

#include <string>
#include <vector>

#include "solver/nn/model.hpp"
#include "solver/train/optimizer.hpp"
#include "tests/golden/golden_file.hpp"

namespace tessera::golden {

/// One model of a model file: a training run of PyTorch's.
struct ModelCase {
  std::string name;
  ModelConfig config;
  std::string loss;
  OptimizerOptions optimizer;
  double clip_grad_norm = -1;  ///< -1: none
  Index steps = 0;
  Index global_batch = 0;
  Arrays params;             ///< before the first step
  Array inputs, targets;     ///< (steps, batch, C, *grid); (steps, batch, C, *grid) or (steps, batch)
  Array output0;             ///< (batch, C, *grid) or (batch, classes), of the first step
  Arrays grads0;             ///< of the first step, before clipping
  Array losses, grad_norms;  ///< per step
  Arrays params_final;       ///< after the last step

  /// Sample `b` of step `s`, channels last: (1, *grid, C), or (1) for classes.
  Tensor input(Index s, Index b, DType type) const { return sample(inputs, s, b, type); }
  Tensor target(Index s, Index b, DType type) const { return sample(targets, s, b, type); }

 private:
  static Tensor sample(const Array& from, Index s, Index b, DType type);
};

/// Throws Error(input_file) where the case is incomplete or has keys of unknown meaning.
ModelCase read_model_case(const hdf5::Group& models, const std::string& name);

}  // namespace tessera::golden
