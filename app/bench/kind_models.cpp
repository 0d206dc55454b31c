// train-step, predict-step: whole models.
#include "app/bench/kinds.hpp"
#include "app/bench/models.hpp"
#include "app/bench/random_fields.hpp"
#include "io/agree.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/random.hpp"
#include "solver/train/trainer.hpp"
#include "solver/train/training_checkpoint.hpp"

namespace tessera::bench {
namespace {

constexpr std::uint64_t kSeed = 0;
constexpr std::size_t kLossesKept = 4;

/// What a model's rate is held against: products or convolutions, whichever it consists of.
void set_limit(Work& work, const Place& place, const ModelConfig& config, const GridCuts& cuts) {
  const DType type = config.bf16_products ? DType::bf16 : config.type;
  if (config.architecture != Architecture::convnet) {
    work.limit_name = "library's GEMM";
    work.limit = [type, &limits = place.limits] { return limits.gemm(type); };
    return;
  }
  ConvShape shape{box_of(cuts, place.group->rank() % ranks_of(cuts)).shape(), config.dim, type};
  for (int a = 0; a < shape.grid.size(); ++a) shape.grid[a] /= config.patch[a];
  work.limit_name = "library's convolution";
  work.limit = [shape, &limits = place.limits] { return limits.conv(shape); };
}

void save_case(const Place& place, FieldSource& source, const std::vector<NamedTensor>& parameters) {
  run_on_root(*place.group, [&] { std::filesystem::create_directories(*place.save); });
  export_safetensors(place.group, (*place.save / "weights.safetensors").string(), parameters);
  save_fields(place.group, source, *place.save / "samples.h5");
}

}  // namespace

Work make_train_step(const Place& place, const Case& c) {
  const int ddp = c.ddp ? place.group->size() : 1, domain = place.group->size() / ddp;
  const ModelConfig config = find_model(c.model).at(c.size, c.precision);
  const GridCuts cuts = cut_grid(config, domain, c.uneven);
  const MeshAxis axes[] = {{"ddp", ddp}, {"domain", domain}};
  const Mesh mesh(place.group, axes);

  const auto source = std::make_shared<RandomFields>(config.grid, config.in_channels, ddp);
  SampleSpec spec;
  for (const Channel& channel : source->fields().channels) spec.fields.push_back(channel.name);
  const Normalisation none{std::vector<double>(spec.fields.size(), 0.0),
                           std::vector<double>(spec.fields.size(), 1.0)};
  const std::size_t values = static_cast<std::size_t>(count(config.grid) * config.in_channels);
  const auto maker =
      std::make_shared<SampleMaker>(source, spec, none, Normalisation{},
                                    layout_of(mesh.without("ddp"), cuts, 1), 2 * values * sizeof(float));
  std::vector<SampleId> samples;
  for (int t = 0; t < ddp; ++t) samples.push_back({t, 1});
  TrainerOptions options;
  options.optimizer = {.lr = 1e-3, .weight_decay = 0.01};
  options.clip_grad_norm = 1;
  const auto surrogate = std::make_shared<Surrogate>(make_model(config, kSeed), nullptr);
  const auto trainer = std::make_shared<Trainer>(mesh, surrogate, maker, samples, options);
  if (place.save) save_case(place, *source, trainer->parameters());

  Work work;
  work.losses = std::make_shared<std::vector<double>>();
  work.run = [trainer, losses = work.losses] {
    const StepReport report = trainer->step();
    if (losses->size() < kLossesKept) losses->push_back(report.loss);
  };
  const Operations operations = operations_of(config, cuts);
  work.amount = ddp * (operations.forward + operations.backward);
  set_limit(work, place, config, cuts);
  return work;
}

Work make_predict_step(const Place& place, const Case& c) {
  const ModelConfig config = find_model(c.model).at(c.size, c.precision);
  const GridCuts cuts = cut_grid(config, place.group->size(), c.uneven);
  const MeshAxis axis{"domain", -1};
  const Layout layout = layout_of(Mesh(place.group, {&axis, 1}), cuts, config.in_channels);
  const Tensor x = Tensor::empty(layout, config.type);
  fill_normal(x, CounterRandom(kSeed, stream_of("input")), 0.0, 1.0);
  Work work;
  work.run = [model = make_model(config, kSeed), x] {
    const NoGrad no_grad;
    (*model)(x);
  };
  work.amount = operations_of(config, cuts).forward;
  set_limit(work, place, config, cuts);
  return work;
}

}  // namespace tessera::bench
