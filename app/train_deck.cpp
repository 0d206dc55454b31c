#include "app/train_deck.hpp"

#include "app/experiment.hpp"
#include "app/mesh_deck.hpp"

namespace tessera {
namespace {

void describe_optimizer(Section& s) {
  s.selector("type").defaults("adamw").help("update rule, as in PyTorch");
  s.real("lr").above(0).defaults(1e-3).help("peak learning rate");
  s.real("weight_decay").min(0).defaults(0.0).help("L2 term for sgd and adam, decoupled for adamw");
  s.variant("sgd", [](Section& v) {
    v.real("momentum").range(0, 1).defaults(0.0).help("share of the velocity kept");
    v.boolean("nesterov").defaults(false).help("look-ahead momentum");
  });
  const Describe adam = [](Section& v) {
    v.reals("betas")
        .length(2)
        .min(0)
        .below(1)
        .defaults(std::vector<double>{0.9, 0.999})
        .help("decay of the two moments");
    v.real("eps").above(0).defaults(1e-8).help("added to the root of the second moment");
  };
  s.variant("adam", adam);
  s.variant("adamw", adam);
}

void describe_schedule(Section& s) {
  s.integer("warmup").min(0).defaults(Index{0}).unit("updates").help("linear rise of the learning rate");
  s.choice("decay", {"none", "cosine"})
      .defaults("cosine")
      .help("after the warm-up, down to final * lr at the last update");
  s.real("final").range(0, 1).defaults(0.0).help("share of the peak learning rate at the end");
}

void describe_train(Section& s) {
  s.integer("steps").min(1).optional().help("updates of the weights; this or epochs, whichever ends first");
  s.real("epochs").above(0).optional().help("passes through the training samples");
  s.integer("batch").min(1).defaults(Index{1}).help(
      "samples in one pass of a domain group: 1 (see accumulate and mesh.ddp)");
  s.integer("accumulate")
      .range(1, 1 << 30)
      .defaults(Index{1})
      .help("samples per domain group and update, one after the other");
  s.choice("loss", {"mse", "l1", "relative_l2", "vrmse"}).defaults("mse").help("of the normalised fields");
  s.section("optimizer", describe_optimizer).help("update rule");
  s.section("schedule", describe_schedule).help("learning rate over time");
  s.real("clip_grad_norm").min(0).defaults(0.0).help("largest norm of all gradients together; 0: no limit");
  s.real("ema").range(0, 1).defaults(0.0).help(
      "decay of a moving average of the weights, used to validate and predict; 0: none");
  s.integer("seed").min(0).defaults(Index{0}).help("of initial weights and sample order");
  s.choice("nan", {"stop", "skip", "dump"})
      .defaults("stop")
      .help(
          "a loss or gradient that is not finite: end the run, leave the update out, or end after a "
          "checkpoint into dump/");
  s.choice("recompute", {"none", "blocks", "auto"})
      .defaults("none")
      .help(
          "activations that are not kept but computed again in the backward pass: those inside each block of "
          "the "
          "model; auto: if they would not fit the memory otherwise");
  s.real("memory").above(0).optional().unit("GiB").help(
      "what a rank may use, for `recompute: auto`; default: four fifths of what is free on its host, shared "
      "by "
      "the ranks there");
  s.text("weights").optional().help("safetensors file with initial weights");
  s.integer("log_every").min(1).defaults(Index{1}).unit("updates").help("a line of history.jsonl");
}

void describe_validate(Section& s) {
  s.real("every").min(0).defaults(1.0).unit("epochs").help("0: never, only at the end");
}

void describe_checkpoint(Section& s) {
  s.integer("every").min(0).defaults(Index{0}).unit("updates").help("0: at the end only");
  s.duration("interval").optional().help("also after this long");
  s.integer("keep_last").min(1).defaults(Index{2}).help("newest checkpoints kept");
  s.integer("keep_every")
      .min(0)
      .defaults(Index{0})
      .unit("updates")
      .help("keep those at multiples of this for good; 0: none");
}

}  // namespace

Schema train_schema() {
  return Schema("A deck of `tessera train`", [](Section& s) {
    s.section("mesh", [](Section& m) { describe_mesh(m, true); }).help("how ranks share the work");
    describe_experiment(s);
    s.section("train", describe_train).help("optimisation");
    s.section("validate", describe_validate).help("scores on the validation split");
    s.section("checkpoint", describe_checkpoint).help("what is kept to continue from");
  });
}

TrainerOptions trainer_options(const Deck& deck, Index total_steps) {
  const Deck train = deck.section("train");
  if (const Index batch = train.get<Index>("batch"); batch != 1) {
    throw train.error("batch",
                      "found {}, expected 1: a domain group computes one sample at a time; "
                      "use train.accumulate or mesh.ddp for larger batches",
                      batch);
  }
  TrainerOptions o;
  o.loss = train.choose<LossKind>("loss", {{"mse", LossKind::mse},
                                           {"l1", LossKind::l1},
                                           {"relative_l2", LossKind::relative_l2},
                                           {"vrmse", LossKind::vrmse}});
  o.optimizer.kind = train.choose<OptimizerKind>(
      "optimizer.type",
      {{"sgd", OptimizerKind::sgd}, {"adam", OptimizerKind::adam}, {"adamw", OptimizerKind::adamw}});
  o.optimizer.lr = train.get<double>("optimizer.lr");
  o.optimizer.weight_decay = train.get<double>("optimizer.weight_decay");
  if (o.optimizer.kind == OptimizerKind::sgd) {
    o.optimizer.momentum = train.get<double>("optimizer.momentum");
    o.optimizer.nesterov = train.get<bool>("optimizer.nesterov");
  } else {
    const auto betas = train.get<std::vector<double>>("optimizer.betas");
    o.optimizer.beta1 = betas[0];
    o.optimizer.beta2 = betas[1];
    o.optimizer.eps = train.get<double>("optimizer.eps");
  }
  o.schedule.warmup = train.get<Index>("schedule.warmup");
  o.schedule.total = train.get<std::string>("schedule.decay") == "cosine" ? total_steps : 0;
  o.schedule.final_factor = train.get<double>("schedule.final");
  o.accumulate = train.get<Index>("accumulate");
  o.clip_grad_norm = train.get<double>("clip_grad_norm");
  o.average_decay = train.get<double>("ema");
  o.nan = train.choose<NanPolicy>(
      "nan", {{"stop", NanPolicy::stop}, {"skip", NanPolicy::skip}, {"dump", NanPolicy::stop}});
  o.seed = train.get<std::uint64_t>("seed");
  return o;
}

}  // namespace tessera
