#pragma once

#include <memory>
#include <string>
#include <vector>

#include "solver/nn/module.hpp"

namespace tessera {

enum class OptimizerKind : std::uint8_t { sgd, adam, adamw };

/// As torch.optim.SGD, Adam and AdamW (no amsgrad, dampening 0, no maximize).
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 1e-3;
  double weight_decay = 0;  ///< L2 term of the gradient for sgd and adam, decoupled for adamw
  double momentum = 0;      ///< sgd
  bool nesterov = false;    ///< sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  ///< adam, adamw
};

/// Updates parameters from their gradients, one fused pass per parameter, without communication: replicas
/// that start equal and get equal gradients stay equal.
class Optimizer {
 public:
  Optimizer(std::vector<NamedTensor> parameters, OptimizerOptions options);

  /// One update with learning rate `lr` from gradients times `gradient_factor` (see clip_factor). A parameter
  /// without a gradient is left alone.
  void step(double lr, double gradient_factor = 1);
  /// Updates made so far.
  Index steps() const { return steps_; }
  void set_steps(Index steps) { steps_ = steps; }

  const OptimizerOptions& options() const { return options_; }
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  /// State tensors by name: "<parameter>.exp_avg", ".exp_avg_sq" or ".momentum_buffer", for checkpoints.
  std::vector<NamedTensor> state() const;

 private:
  std::vector<NamedTensor> parameters_;
  OptimizerOptions options_;
  std::vector<Tensor> first_, second_;  ///< momentum, or first and second moments
  Index steps_ = 0;
};

/// Square root of the sum of squares of all gradients (global values, equal on every rank), accumulated in
/// double.
double gradient_norm(const std::vector<NamedTensor>& parameters);
/// min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_: what clipping multiplies gradients
/// by.
double clip_factor(double norm, double max_norm);

/// Exponential moving average of parameters: average = decay * average + (1 - decay) * parameter.
class ParameterAverage {
 public:
  ParameterAverage(const std::vector<NamedTensor>& parameters, double decay);
  void update();
  /// The averages, under the names of their parameters.
  const std::vector<NamedTensor>& averages() const { return averages_; }
  /// Exchanges the contents of parameters and averages; a second call restores them.
  void swap() const;

 private:
  std::vector<NamedTensor> parameters_, averages_;
  double decay_;
};

/// Linear warm-up from 0 over `warmup` steps, then a half cosine from 1 to `final_factor` at `total` steps.
struct LearningRateSchedule {
  Index warmup = 0;
  Index total = 0;  ///< 0: constant after the warm-up
  double final_factor = 0;

  /// Factor on the learning rate of step `step` (0, 1, ...).
  double factor(Index step) const;
};

}  // namespace tessera
