#include <chrono>
#include <cmath>

#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "app/commands.hpp"
#include "app/experiment.hpp"
#include "app/mesh_deck.hpp"
#include "app/model_deck.hpp"
#include "app/plan.hpp"
#include "app/process_clock.hpp"
#include "app/progress.hpp"
#include "app/rebalance.hpp"
#include "app/recompute.hpp"
#include "app/train_deck.hpp"
#include "io/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/checkpoint/manifest.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "solver/train/training_checkpoint.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

/// One training run: the loop around a Trainer, with validation, checkpoints and reports.
class Training {
 public:
  explicit Training(Run& run)
      : run_(run),
        deck_(run.deck()),
        seed_(deck_.get<std::uint64_t>("train.seed")),
        restart_(open_restart()) {
    trainer_options(deck_, 1);  // refuses what no data can make right before any is read
    experiment_ = make_experiment(deck_, deck_, run.world(), seed_, known_normalisation());
    total_ = total_steps();
    plan_ = make_plan(deck_, experiment_.data, run.world()->size());
    recompute_ = choose_recompute(deck_, plan_, *run.world());
    plan_.model.recompute = recompute_.blocks;
    if (const auto weights = deck_.find<std::string>("train.weights"); weights && !restart_) {
      import_safetensors(*weights, experiment_.surrogate->parameters());
    }
    trainer_ = make_trainer();
    if (restart_) {
      load_tensors(*restart_, trainer_->state());
      trainer_->resume_at(restart_->step(), restart_updates_);
    }
  }

  void describe() const {
    const Index parameters = experiment_.surrogate->parameter_count();
    run_.say(fmt::format("data     {}, grid {}, {} fields, {} training, {} validation, {} test samples",
                         experiment_.data.fields().name, to_string(experiment_.data.grid()),
                         experiment_.data.spec.fields.size(), split_size(SplitName::train),
                         split_size(SplitName::valid), split_size(SplitName::test)));
    run_.say(fmt::format("model    {}, {} parameters, {} input channels",
                         deck_.get<std::string>("model.type"), parameters,
                         experiment_.data.spec.input_channels()));
    if (!run_.line().dry_run) run_.say(fmt::format("mesh     {}", to_string(experiment_.mesh)));
    if (!run_.line().dry_run) {
      for (const std::string& line : cut_lines()) run_.say(line);
    }
    if (!recompute_.reason.empty()) run_.say("memory   " + recompute_.reason);
    run_.say(fmt::format("updates  {} of {} samples ({:.3g} epochs)", total_, trainer_->samples_per_step(),
                         static_cast<double>(total_ * trainer_->samples_per_step()) /
                             static_cast<double>(trainer_->epoch_samples())));
    if (run_.line().dry_run && run_.is_root()) {
      run_.say(plan_text(plan_));
    }
  }

  ExitCode loop() {
    forget_other_runs();
    History history(run_.folder() / "history.jsonl", run_.is_root(), trainer_->steps());
    StopControl control(run_.world(), run_.folder(), run_.line().walltime);
    Progress progress("train", total_, run_.is_root() && !run_.line().quiet);
    last_checkpoint_ = Clock::now();
    Rebalance rebalance(measured_partition(deck_, experiment_.domain),
                        patch_of(deck_.section("model"), experiment_.data.grid().size()), trainer_->steps());
    while (trainer_->steps() < total_) {
      rebalance.start();
      const StepReport report = step();
      rebalance.stop();
      if (first_update_ == 0) first_update_ = seconds_since_process_start();
      write_history(history, report);
      progress.update(report.step, progress_values(report));
      if (report.skipped)
        progress.note(fmt::format("update {} left out: loss or gradient not finite", report.step));
      if (validation_due()) validate(history, progress);
      if (const auto grid = rebalance.due(report.step, *run_.world(), experiment_.grid)) {
        move_to(*grid);
        for (const std::string& line : cut_lines()) progress.note(line);
      }
      const StopControl::Wish wish = control.poll();
      if (wish == StopControl::Wish::stop) {
        progress.note(fmt::format("stopped after update {} without a checkpoint", report.step));
        return ExitCode::stopped_early;
      }
      if (wish != StopControl::Wish::carry_on || checkpoint_due()) control.set_checkpoint_time(save());
      if (wish == StopControl::Wish::checkpoint_and_stop) {
        progress.note(fmt::format("stopped after update {}; continue with -r latest", report.step));
        return ExitCode::stopped_early;
      }
    }
    const bool worked = !restart_ || trainer_->steps() > restart_->step();
    if (worked && last_validation_ != trainer_->steps()) validate(history, progress);
    if (last_saved_ != trainer_->steps()) save();
    progress.finish();
    return ExitCode::done;
  }

  /// Exports the weights and writes `summary.json`.
  void finish() {
    const std::filesystem::path weights = run_.folder() / "weights.safetensors";
    export_safetensors(run_.world(), weights.string(), trainer_->best_parameters());
    nlohmann::json summary;
    summary["updates"] = trainer_->steps();
    summary["parameters"] = experiment_.surrogate->parameter_count();
    summary["best_loss"] = std::isfinite(best_loss_) ? nlohmann::json(best_loss_) : nlohmann::json();
    summary["best_update"] = best_step_;
    summary["seconds"] = seconds_since(start_);
    summary["seconds_to_first_update"] = first_update_;
    for (const auto& [name, space] :
         {std::pair{"device", MemorySpace::device}, std::pair{"host", MemorySpace::host}}) {
      const MemoryUse use = memory_use(space);
      summary["memory"][name]["peak_bytes"] = largest_over_ranks(use.peak);
      summary["memory"][name]["largest_block_bytes"] = largest_over_ranks(use.largest_block);
    }
    run_on_root(*run_.world(),
                [&] { write_text_atomically(run_.folder() / "summary.json", summary.dump(2) + "\n"); });
    if (first_update_ > 0)
      run_.say(fmt::format("start    the first update was done {:.2f} s after the program's start",
                           first_update_));
    run_.say(fmt::format("weights  {}", weights.string()));
    if (std::isfinite(best_loss_)) {
      run_.say(fmt::format("best     validation loss {} at update {}", number(best_loss_), best_step_));
    }
    run_.say(fmt::format("memory   {:.1f} MiB of tensors at most on a rank",
                         summary["memory"]["device"]["peak_bytes"].get<double>() / (1 << 20)));
  }

 private:
  std::unique_ptr<Trainer> make_trainer() const {
    experiment_.surrogate->model().set_recompute(recompute_.blocks);
    return std::make_unique<Trainer>(
        experiment_.mesh, experiment_.surrogate, experiment_.makers[static_cast<int>(SplitName::train)],
        experiment_.data.split(SplitName::train).samples, trainer_options(deck_, total_));
  }

  std::vector<std::string> cut_lines() const {
    std::vector<std::string> lines;
    for (int a = 0; a < experiment_.domain.axes(); ++a) {
      lines.push_back(fmt::format("cut      axis {} at {}",
                                  experiment_.data.fields().axes[static_cast<std::size_t>(a)].name,
                                  to_string(experiment_.grid.partition(a))));
    }
    return lines;
  }

  /// Goes on with the grid cut otherwise: a new trainer takes over the state of the present one.
  void move_to(const Layout& grid) {
    const NoGrad no_grad;
    const std::vector<NamedTensor> before = trainer_->state();
    const Index steps = trainer_->steps(), updates = trainer_->updates();
    experiment_ = make_experiment(deck_, experiment_, grid, seed_);
    trainer_ = make_trainer();
    const std::vector<NamedTensor> after = trainer_->state();
    for (std::size_t i = 0; i < after.size(); ++i) {
      const Tensor &from = before[i].tensor, &to = after[i].tensor;
      to.copy_from(to.is_shard() ? redistribute(from, to.layout()) : from);
    }
    trainer_->resume_at(steps, updates);
  }

  /// With --force, or from an earlier step, the folder may hold what this run does not lead to.
  void forget_other_runs() {
    const Index step = trainer_->steps();
    const std::filesystem::path best = run_.folder() / "best";
    discard_later_checkpoints(*run_.world(), run_.checkpoints(), step);
    discard_later_checkpoints(*run_.world(), best, step);
    // The best weights so far may be lost, or in the folder that this run was continued from.
    bool there = false;
    run_on_root(*run_.world(), [&] { there = std::filesystem::exists(best / checkpoint_name(best_step_)); });
    if (run_.world()->all_reduce_value(there ? 1 : 0, ReduceOp::max) > 0) return;
    best_loss_ = std::numeric_limits<double>::infinity();
    best_step_ = 0;
  }

  /// One update; a numerical failure leaves the weights before it in `dump/` if the deck says so.
  StepReport step() {
    try {
      return trainer_->step();
    } catch (const Error& error) {
      if (error.code() == ExitCode::numerical && deck_.get<std::string>("train.nan") == "dump") {
        save_tensors(*run_.world(), run_.folder() / "dump", trainer_->steps(), state_json(),
                     trainer_->state());
      }
      throw;
    }
  }

  std::optional<Checkpoint> open_restart() {
    if (!run_.restart_from()) return std::nullopt;
    std::optional<Checkpoint> checkpoint(std::in_place, *run_.restart_from());
    const nlohmann::json state = training_state(*checkpoint);
    best_loss_ = state.at("best_loss").is_null() ? std::numeric_limits<double>::infinity()
                                                 : state.at("best_loss").get<double>();
    best_step_ = state.at("best_step").get<Index>();
    restart_updates_ = state.at("updates").get<Index>();
    last_saved_ = checkpoint->step();
    return checkpoint;
  }

  std::optional<DataNormalisation> known_normalisation() const {
    if (!restart_) return std::nullopt;
    return normalisation_from_json(training_state(*restart_).at("normalisation").dump());
  }

  double largest_over_ranks(std::size_t bytes) const {
    return run_.world()->all_reduce_value(static_cast<double>(bytes), ReduceOp::max);
  }

  std::size_t split_size(SplitName name) const { return experiment_.data.split(name).samples.size(); }

  Index total_steps() const {
    const auto steps = deck_.find<Index>("train.steps");
    const auto epochs = deck_.find<double>("train.epochs");
    if (!steps && !epochs) throw deck_.error("train.steps", "neither train.steps nor train.epochs is given");
    constexpr double most = 1e15;  // samples of more may not fit an Index
    double total = steps ? static_cast<double>(*steps) : std::numeric_limits<double>::infinity();
    const char* bound = "train.steps";
    if (epochs) {
      const double samples = static_cast<double>(split_size(SplitName::train));
      const double per_step =
          static_cast<double>(deck_.get<Index>("train.accumulate") * experiment_.mesh.axis_size("ddp"));
      const double updates = std::ceil(*epochs * samples / per_step);
      if (updates < total) bound = "train.epochs";
      total = std::min(total, updates);
    }
    if (total > most) {
      throw deck_.error(bound, "found {:.4g} updates, expected at most {:.0e}", total, most);
    }
    return static_cast<Index>(total);
  }

  static std::vector<std::pair<std::string, std::string>> progress_values(const StepReport& report) {
    return {{"loss", number(report.loss)}, {"grad", number(report.grad_norm)}, {"lr", number(report.lr)}};
  }

  void write_history(History& history, const StepReport& report) const {
    if (report.step % deck_.get<Index>("train.log_every") != 0 && report.step != total_) return;
    history.append(report.step, {{"epoch", trainer_->epoch()},
                                 {"loss", report.loss},
                                 {"grad_norm", report.grad_norm},
                                 {"lr", report.lr},
                                 {"skipped", report.skipped ? 1.0 : 0.0}});
  }

  bool validation_due() const {
    const double every = deck_.get<double>("validate.every");
    if (every <= 0 || split_size(SplitName::valid) == 0) return false;
    const double now = trainer_->epoch() / every;
    const double before = static_cast<double>((trainer_->steps() - 1) * trainer_->samples_per_step()) /
                          static_cast<double>(trainer_->epoch_samples()) / every;
    return std::floor(now + 1e-9) > std::floor(before + 1e-9);
  }

  void validate(History& history, Progress& progress) {
    last_validation_ = trainer_->steps();
    if (split_size(SplitName::valid) == 0) return;
    const Evaluation e = trainer_->evaluate(experiment_.maker(SplitName::valid),
                                            experiment_.data.split(SplitName::valid).samples);
    History::Values values{{"epoch", trainer_->epoch()}, {"valid_loss", e.loss}};
    std::string text = fmt::format("update {:5d}  valid loss {:.5f}", trainer_->steps(), e.loss);
    for (std::size_t f = 0; f < e.rmse.size(); ++f) {
      const std::string& name = experiment_.data.spec.fields[f];
      values.emplace_back("valid_rmse_" + name, e.rmse[f]);
      values.emplace_back("valid_vrmse_" + name, e.vrmse[f]);
      text += fmt::format("  {} {:.4f}", name, e.rmse[f]);
    }
    history.append(trainer_->steps(), values);
    if (e.loss < best_loss_) {
      best_loss_ = e.loss;
      best_step_ = trainer_->steps();
      save_best();
      text += "  *";
    }
    progress.note(text);
  }

  bool checkpoint_due() const {
    const Index every = deck_.get<Index>("checkpoint.every");
    if (every > 0 && trainer_->steps() % every == 0) return true;
    const auto interval = deck_.find<double>("checkpoint.interval");
    // Rank 0's clock decides, so that all ranks save together.
    return interval &&
           run_.world()->all_reduce_value(
               run_.is_root() && seconds_since(last_checkpoint_) > *interval ? 1 : 0, ReduceOp::max) > 0;
  }

  std::string state_json() const {
    nlohmann::json state;
    state["best_loss"] = std::isfinite(best_loss_) ? nlohmann::json(best_loss_) : nlohmann::json();
    state["best_step"] = best_step_;
    state["updates"] = trainer_->updates();
    state["normalisation"] = nlohmann::json::parse(to_json(experiment_.normalisation));
    state["deck"] = deck_.resolved();
    return state.dump();
  }

  /// Returns the seconds it took, the same on every rank.
  double save() {
    const Clock::time_point start = Clock::now();
    save_tensors(*run_.world(), run_.checkpoints(), trainer_->steps(), state_json(), trainer_->state());
    prune_checkpoints(*run_.world(), run_.checkpoints(),
                      {deck_.get<Index>("checkpoint.keep_last"), deck_.get<Index>("checkpoint.keep_every")});
    last_checkpoint_ = Clock::now();
    last_saved_ = trainer_->steps();
    return run_.world()->all_reduce_value(seconds_since(start), ReduceOp::max);
  }

  /// The weights with the best validation loss so far, for `tessera predict`.
  void save_best() {
    const std::filesystem::path root = run_.folder() / "best";
    save_tensors(*run_.world(), root, trainer_->steps(), state_json(), trainer_->best_parameters());
    prune_checkpoints(*run_.world(), root, {1, 0});
  }

  Run& run_;
  const Deck& deck_;
  std::uint64_t seed_;
  double best_loss_ = std::numeric_limits<double>::infinity();
  Index best_step_ = 0;
  Index restart_updates_ = 0;
  Index last_saved_ = -1, last_validation_ = -1;
  double first_update_ = 0;  ///< seconds from the start of the process to its end
  std::optional<Checkpoint> restart_;
  Experiment experiment_;
  TrainingPlan plan_;
  RecomputeChoice recompute_;
  Index total_ = 0;
  std::unique_ptr<Trainer> trainer_;
  Clock::time_point start_ = Clock::now(), last_checkpoint_;
};

}  // namespace

int train(const CommPtr& world, const CommandLine& line) {
  Run run(world, line, train_schema());
  Training training(run);
  training.describe();
  if (line.dry_run) return static_cast<int>(ExitCode::done);
  run.open_folder();
  const ExitCode code = training.loop();
  if (code == ExitCode::done) training.finish();
  return static_cast<int>(code);
}

}  // namespace tessera
