// Gradients of whole models under DataParallel on a cut grid against one process.
#include <gtest/gtest.h>

#include <cmath>

#include "solver/nn/model.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/train/data_parallel.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::world;

constexpr Index kRows = 12, kColumns = 10, kChannels = 2;

std::vector<float> waves(double frequency) {
  std::vector<float> values;
  for (Index i = 0; i < kRows * kColumns * kChannels; ++i)
    values.push_back(static_cast<float>(std::sin(frequency * static_cast<double>(i))));
  return values;
}

ModelConfig small(Architecture architecture) {
  ModelConfig c;
  c.architecture = architecture;
  c.grid = {kRows, kColumns};
  c.patch = {2, 2};
  c.in_channels = c.out_channels = kChannels;
  c.dim = 16;
  c.depth = 1;
  c.kernel_size = 3;
  return c;
}

void run(const Model& model, const std::function<Tensor(const std::vector<float>&)>& tensor) {
  mse_loss(model(tensor(waves(0.37))), tensor(waves(0.21))).backward();
}

class DataParallelModels : public ::testing::TestWithParam<Architecture> {};

TEST_P(DataParallelModels, GradientsEqualOneProcess) {
  const Shape shape{1, kRows, kColumns, kChannels};
  const auto one = make_model(small(GetParam()), 1), many = make_model(small(GetParam()), 1);
  run(*one, [&](const std::vector<float>& v) { return Tensor::from_host(std::span<const float>(v), shape); });

  const MeshAxis axes[] = {{"ddp", 1}, {"domain", -1}};
  const Mesh mesh(world(), axes);
  const std::string name = "domain";
  const Mesh domain = mesh.sub({&name, 1});
  DataParallel parallel(mesh, many->parameters());
  const Layout layout = Layout::even(domain, {Shard(1)}, shape);
  const Range own = layout.range(domain.rank(), 1);
  parallel.zero_grad();
  parallel.set_last(true);
  run(*many, [&](const std::vector<float>& v) {
    constexpr Index row = kColumns * kChannels;
    const auto part = std::span<const float>(v).subspan(static_cast<std::size_t>(own.lo * row),
                                                        static_cast<std::size_t>(own.size() * row));
    return Tensor::from_host(part, layout);
  });
  parallel.finish();

  const auto expected = one->parameters(), found = many->parameters();
  for (std::size_t p = 0; p < expected.size(); ++p) {
    const auto want = expected[p].tensor.grad().to_host<double>(),
               got = found[p].tensor.grad().to_host<double>();
    double largest = 0, error = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      error = std::max(error, std::abs(want[i] - got[i]));
    }
    EXPECT_LE(error, 1e-4 * largest + 1e-7) << expected[p].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, DataParallelModels,
                         ::testing::Values(Architecture::vit, Architecture::natten, Architecture::convnet));

}  // namespace
}  // namespace tessera
