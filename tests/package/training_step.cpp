// A program outside the library: one training step of a convolutional network on a field that is cut over all
// ranks.
#include <cmath>
#include <cstdio>

#include "parallel/runtime.hpp"
#include "solver/nn/model.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/train/optimizer.hpp"

namespace {

int run(const tessera::CommPtr& world) {
  using namespace tessera;
  const MeshAxis axis{"domain", -1};
  const Mesh domain(world, {&axis, 1});
  ModelConfig config;
  config.architecture = Architecture::convnet;
  config.grid = {73, 144};
  config.patch = {1, 1};
  config.in_channels = config.out_channels = 8;
  config.dim = 16;
  config.depth = 1;
  const auto model = make_model(config);

  const Layout layout = Layout::even(domain, {Shard(1)}, {1, 73, 144, 8});
  const Tensor x = Tensor::zeros(layout), target = Tensor::zeros(layout);
  Optimizer optimizer(model->parameters(), {.kind = OptimizerKind::sgd, .lr = 0.1});
  double before = 0, after = 0;
  for (double* loss : {&before, &after}) {
    const Tensor y = mse_loss((*model)(x), target);
    *loss = y.item();
    y.backward();
    optimizer.step(0.1);
  }
  if (world->rank() == 0) std::printf("loss %g, then %g\n", before, after);
  return after < before ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  tessera::Runtime runtime(argc, argv);
  return tessera::run_guarded(*runtime.world(), [&] { return run(runtime.world()); });
}
