#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "solver/train/data_parallel.hpp"
#include "solver/train/optimizer.hpp"
#include "solver/train/reader_thread.hpp"
#include "solver/train/surrogate.hpp"

namespace tessera {

/// Samples that are read while others are computed.
inline constexpr std::size_t kSamplesAhead = 3;

enum class LossKind : std::uint8_t { mse, l1, relative_l2, vrmse };
/// What to do when a loss or gradient is not finite: end the run, or leave the update out.
enum class NanPolicy : std::uint8_t { stop, skip };

struct TrainerOptions {
  LossKind loss = LossKind::mse;
  OptimizerOptions optimizer;
  LearningRateSchedule schedule;
  Index accumulate = 1;       ///< samples per domain group and update
  double clip_grad_norm = 0;  ///< 0: no clipping
  double average_decay = 0;   ///< 0: no moving average of the parameters
  NanPolicy nan = NanPolicy::stop;
  std::uint64_t seed = 0;
};

/// What one update did; equal on every rank.
struct StepReport {
  Index step = 0;  ///< updates made, this one included
  double loss = 0;
  double grad_norm = 0;  ///< before clipping
  double lr = 0;
  bool skipped = false;
};

/// Mean over samples, in normalised and in the data's own units.
struct Evaluation {
  Index samples = 0;
  double loss = 0;
  std::vector<double> rmse;   ///< per field: root of the mean over samples and cells, in the data's units
  std::vector<double> vrmse;  ///< per field: mean over samples of The Well's VRMSE
};

/// Trains a surrogate on a mesh with an axis "ddp" and domain axes. The stream of samples is a random order
/// per epoch that depends on the seed alone: update s takes its samples from position s * ddp * accumulate
/// on, so that (ddp, accumulate) = (2, 1) and (1, 2) see the same batches.
class Trainer {
 public:
  Trainer(const Mesh& mesh, std::shared_ptr<Surrogate> surrogate, std::shared_ptr<SampleMaker> maker,
          std::vector<SampleId> samples, TrainerOptions options);
  ~Trainer();

  /// One update. Throws Error(numerical), naming the first tensor and rank, where the policy says stop.
  StepReport step();
  /// Averages over `samples` of `maker`, shared out over the ddp groups, with the moving average of the
  /// parameters if there is one.
  Evaluation evaluate(SampleMaker& maker, const std::vector<SampleId>& samples);

  Index steps() const { return steps_; }
  /// Steps that changed the parameters: all but those left out.
  Index updates() const { return optimizer_.steps(); }
  Index samples_per_step() const { return options_.accumulate * mesh_.axis_size("ddp"); }
  Index epoch_samples() const { return static_cast<Index>(samples_.size()); }
  double epoch() const {
    return static_cast<double>(steps_ * samples_per_step()) / static_cast<double>(epoch_samples());
  }
  /// Continues after `steps` steps, `updates` of which changed the parameters; state() has been restored.
  void resume_at(Index steps, Index updates);
  /// Model parameters, optimiser state ("optimizer.<name>") and averages ("average.<name>") for checkpoints.
  std::vector<NamedTensor> state() const;
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  /// What a forecast should use, under the parameters' names: their moving averages, or themselves.
  const std::vector<NamedTensor>& best_parameters() const {
    return average_ ? average_->averages() : parameters_;
  }

 private:
  Tensor loss_of(const Tensor& prediction, const Tensor& target) const;
  SampleId sample_at(Index position);
  void fill_queue();
  void check_finite(double loss, double norm) const;

  Mesh mesh_;
  std::shared_ptr<Surrogate> surrogate_;
  std::shared_ptr<SampleMaker> maker_;
  std::vector<SampleId> samples_;
  TrainerOptions options_;
  std::vector<NamedTensor> parameters_;
  DataParallel parallel_;
  Optimizer optimizer_;
  std::optional<ParameterAverage> average_;
  ReaderThread reader_;
  Index steps_ = 0;
  Index next_position_ = 0;  ///< of the next sample to ask the reader for, in this group's own sequence
  std::deque<std::future<SampleMaker::Values>> queue_;
  Index order_epoch_ = -1;
  std::vector<Index> order_;
};

}  // namespace tessera
