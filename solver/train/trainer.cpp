#include "solver/train/trainer.hpp"

#include <cmath>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/random.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

bool is_finite(const Tensor& t) {
  return std::isfinite(sum(square(t.detach().as_plain())).item());
}

/// Per field (1, 1, ..., fields): mean over the grid of (prediction - target)^2, and the unbiased variance of
/// the target.
struct FieldErrors {
  std::vector<double> mse, variance;
};

FieldErrors field_errors(const Tensor& prediction, const Tensor& target) {
  std::vector<int> grid;
  for (int d = 0; d + 1 < target.ndim(); ++d) grid.push_back(d);
  return {full_tensor(reduce_partial(mean(square(sub(prediction, target)), grid))).to_host<double>(),
          full_tensor(reduce_partial(var(target, grid))).to_host<double>()};
}

}  // namespace

Trainer::Trainer(const Mesh& mesh, std::shared_ptr<Surrogate> surrogate, std::shared_ptr<SampleMaker> maker,
                 std::vector<SampleId> samples, TrainerOptions options)
    : mesh_(mesh),
      surrogate_(std::move(surrogate)),
      maker_(std::move(maker)),
      samples_(std::move(samples)),
      options_(options),
      parameters_(surrogate_->parameters()),
      parallel_(mesh, parameters_),
      optimizer_(parameters_, options.optimizer) {
  if (samples_.empty()) fail(ExitCode::usage, "train", "the training split holds no sample");
  if (options_.average_decay > 0) average_.emplace(parameters_, options_.average_decay);
}

Trainer::~Trainer() = default;

Tensor Trainer::loss_of(const Tensor& prediction, const Tensor& target) const {
  switch (options_.loss) {
    case LossKind::l1:
      return l1_loss(prediction, target);
    case LossKind::relative_l2:
      return relative_l2_loss(prediction, target);
    case LossKind::vrmse:
      return vrmse_loss(prediction, target);
    default:
      return mse_loss(prediction, target);
  }
}

SampleId Trainer::sample_at(Index position) {
  const auto n = static_cast<Index>(samples_.size());
  const Index epoch = position / n;
  if (epoch != order_epoch_) {
    order_ = random_permutation(n, CounterRandom(options_.seed, stream_of("epoch " + std::to_string(epoch))));
    order_epoch_ = epoch;
  }
  return samples_[static_cast<std::size_t>(order_[static_cast<std::size_t>(position % n)])];
}

void Trainer::fill_queue() {
  const Index ddp = mesh_.axis_size("ddp"), group = mesh_.coords()[mesh_.axis("ddp")];
  while (queue_.size() < kSamplesAhead) {
    queue_.push_back(reader_.submit(*maker_, sample_at(next_position_ * ddp + group)));
    ++next_position_;
  }
}

void Trainer::resume_at(Index steps, Index updates) {
  steps_ = steps;
  optimizer_.set_steps(updates);
  queue_.clear();
  next_position_ = steps * options_.accumulate;
}

StepReport Trainer::step() {
  StepReport report;
  report.lr = options_.optimizer.lr * options_.schedule.factor(steps_);
  parallel_.zero_grad();
  double loss = 0;
  for (Index micro = 0; micro < options_.accumulate; ++micro) {
    fill_queue();
    const SampleMaker::Values values = queue_.front().get();
    queue_.pop_front();
    const Sample sample = maker_->to_sample(values);
    const Tensor sample_loss =
        mul(loss_of((*surrogate_)(sample), sample.target), 1.0 / static_cast<double>(options_.accumulate));
    loss += sample_loss.item();
    parallel_.set_last(micro + 1 == options_.accumulate);
    sample_loss.backward();
  }
  parallel_.finish();
  {
    const CommScope scope("loss of the update");
    report.loss = mesh_.axis_comm("ddp").all_reduce_value(loss, ReduceOp::avg);
  }
  report.grad_norm = gradient_norm(parameters_);
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) {
    if (options_.nan == NanPolicy::stop) check_finite(loss, report.grad_norm);
    report.skipped = true;
  } else {
    const double clip = options_.clip_grad_norm;
    optimizer_.step(report.lr, clip > 0 ? clip_factor(report.grad_norm, clip) : 1);
    if (average_) average_->update();
  }
  report.step = ++steps_;
  return report;
}

void Trainer::check_finite(double loss, double norm) const {
  std::string culprit;
  for (const NamedTensor& p : parameters_) {
    if (!is_finite(p.tensor)) culprit = "parameter " + p.name;
    if (culprit.empty() && !is_finite(p.tensor.grad())) culprit = "the gradient of " + p.name;
    if (!culprit.empty()) break;
  }
  if (!std::isfinite(loss))
    culprit =
        "the loss (rank " + std::to_string(mesh_.rank()) + ")" + (culprit.empty() ? "" : " and " + culprit);
  // All ranks report what the first rank that saw something saw.
  const std::vector<int> seen = mesh_.comm().all_gather_value(static_cast<int>(!culprit.empty()));
  const auto first = std::find(seen.begin(), seen.end(), 1) - seen.begin();
  culprit = mesh_.comm().broadcast_text(culprit, first == mesh_.size() ? 0 : static_cast<int>(first));
  fail(ExitCode::numerical, "train", "step {}: not finite: {} (loss {}, gradient norm {})", steps_ + 1,
       culprit, loss, norm);
}

Evaluation Trainer::evaluate(SampleMaker& maker, const std::vector<SampleId>& samples) {
  const NoGrad no_grad;
  if (average_) average_->swap();
  Evaluation result;
  const std::size_t fields = maker.spec().fields.size();
  // (samples, loss, per field: squared error, VRMSE), summed over this group's samples, then over groups.
  std::vector<double> sums(2 + 2 * fields, 0.0);
  const auto ddp = static_cast<std::size_t>(mesh_.axis_size("ddp"));
  const auto group = static_cast<std::size_t>(mesh_.coords()[mesh_.axis("ddp")]);
  std::deque<std::future<SampleMaker::Values>> ahead;
  std::size_t next = group;
  for (std::size_t i = group; i < samples.size(); i += ddp) {
    for (; next < samples.size() && ahead.size() < kSamplesAhead; next += ddp) {
      ahead.push_back(reader_.submit(maker, samples[next]));
    }
    const Sample sample = maker.to_sample(ahead.front().get());
    ahead.pop_front();
    const Tensor prediction = (*surrogate_)(sample);
    const FieldErrors errors = field_errors(prediction, sample.target);
    sums[0] += 1;
    sums[1] += loss_of(prediction, sample.target).item();
    for (std::size_t f = 0; f < fields; ++f) {
      sums[2 + f] += errors.mse[f];
      sums[2 + fields + f] += std::sqrt(errors.mse[f] / (errors.variance[f] + 1e-7));
    }
  }
  if (average_) average_->swap();
  const CommScope scope("validation");
  mesh_.axis_comm("ddp").all_reduce(sums.data(), static_cast<Index>(sums.size()), DType::f64, ReduceOp::sum);
  result.samples = static_cast<Index>(sums[0]);
  const double n = std::max(sums[0], 1.0);
  result.loss = sums[1] / n;
  for (std::size_t f = 0; f < fields; ++f) {
    result.rmse.push_back(std::sqrt(sums[2 + f] / n) * maker.normalisation().scale(f));
    result.vrmse.push_back(sums[2 + fields + f] / n);
  }
  return result;
}

std::vector<NamedTensor> Trainer::state() const {
  std::vector<NamedTensor> all = parameters_;
  for (NamedTensor& t : optimizer_.state()) all.push_back({"optimizer." + t.name, t.tensor});
  if (average_) {
    for (const NamedTensor& t : average_->averages()) all.push_back({"average." + t.name, t.tensor});
  }
  return all;
}

}  // namespace tessera
