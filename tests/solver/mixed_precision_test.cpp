// Models whose products are in bf16, with parameters and their gradients in f32: against f32, on any number
// of ranks, and trained.
#include <cmath>

#include <gtest/gtest.h>

#include "solver/nn/model.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/train/data_parallel.hpp"
#include "solver/train/optimizer.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

constexpr Index kRows = 26, kColumns = 20, kChannels = 3;
// An element of bf16 is right to 1/256 of itself; errors of the layers add up.
constexpr double kRounding = 1.0 / 256;

ModelConfig small(Architecture architecture, bool bf16) {
  ModelConfig c;
  c.architecture = architecture;
  c.grid = {kRows, kColumns};
  c.patch = {2, 2};
  c.in_channels = c.out_channels = kChannels;
  c.dim = 32;
  c.depth = 2;
  c.kernel_size = 3;
  c.bf16_products = bf16;
  return c;
}

Shape field_shape() {
  return {1, kRows, kColumns, kChannels};
}

std::vector<double> waves(double speed) {
  std::vector<double> values;
  for (Index i = 0; i < count(field_shape()); ++i) values.push_back(std::sin(speed * static_cast<double>(i)));
  return values;
}

struct Outcome {
  std::vector<double> output;
  std::vector<std::vector<double>> gradients;
};

double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

/// |got - want| / |want|.
double error(const std::vector<double>& got, const std::vector<double>& want) {
  std::vector<double> difference;
  for (std::size_t i = 0; i < want.size(); ++i) difference.push_back(got[i] - want[i]);
  return norm(difference) / norm(want);
}

/// The output and the gradients of one pass; on all ranks of `mesh` (ddp, domain), or by this one alone.
Outcome pass(const Model& model, const Mesh& mesh, const Layout& layout) {
  const auto parameters = model.parameters();
  std::optional<DataParallel> parallel;
  if (mesh) {
    parallel.emplace(mesh, parameters);
    parallel->zero_grad();
    parallel->set_last(true);
  }
  const Tensor y = model(tensor_of(waves(0.37), field_shape(), DType::f32, layout));
  EXPECT_EQ(y.dtype(), DType::f32);
  mse_loss(y, tensor_of(waves(0.21), field_shape(), DType::f32, layout)).backward();
  if (parallel) parallel->finish();
  Outcome outcome{values_of(y.detach()), {}};
  for (const NamedTensor& p : parameters) {
    EXPECT_EQ(p.tensor.grad().dtype(), DType::f32) << p.name;
    outcome.gradients.push_back(p.tensor.grad().to_host<double>());
  }
  return outcome;
}

class MixedPrecision : public ::testing::TestWithParam<Architecture> {};

TEST_P(MixedPrecision, IsF32ToTheRoundingOfBf16) {
  const auto full = make_model(small(GetParam(), false), 1), mixed = make_model(small(GetParam(), true), 1);
  const Outcome want = pass(*full, {}, {}), got = pass(*mixed, {}, {});
  EXPECT_LT(error(got.output, want.output), 4 * kRounding);
  EXPECT_GT(error(got.output, want.output), kRounding / 64) << "nothing was rounded";
  const auto parameters = full->parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    EXPECT_LT(error(got.gradients[p], want.gradients[p]), 8 * kRounding) << parameters[p].name;
  }
}

TEST_P(MixedPrecision, ManyRanksEqualOne) {
  const Outcome want = pass(*make_model(small(GetParam(), true), 1), {}, {});
  const MeshAxis axes[] = {{"ddp", 1}, {"domain", -1}};
  const Mesh mesh(world(), axes);
  const std::string name = "domain";
  // Sums of another order round to another bf16 now and then; halos of convolutions are added to what has
  // been rounded already.
  const double tolerance = (GetParam() == Architecture::convnet ? 2 : 0.1) * kRounding;
  Random random(7);
  for (const Cuts kind : {Cuts::even, Cuts::uneven, Cuts::empty}) {
    const Partition rows = random_cuts(random, kRows, world()->size(), kind);
    const Layout layout(mesh.sub({&name, 1}), {Shard(1)}, field_shape(), {rows});
    const Outcome got = pass(*make_model(small(GetParam(), true), 1), mesh, layout);
    EXPECT_LT(error(got.output, want.output), tolerance) << to_string(rows);
    for (std::size_t p = 0; p < want.gradients.size(); ++p) {
      EXPECT_LT(error(got.gradients[p], want.gradients[p]), tolerance) << p << ", " << to_string(rows);
    }
  }
}

TEST_P(MixedPrecision, TrainsLikeF32) {
  const auto train = [](bool bf16) {
    const auto model = make_model(small(GetParam(), bf16), 3);
    const auto parameters = model->parameters();
    Optimizer optimizer(parameters, {.lr = 2e-3});
    std::vector<double> losses;
    for (int step = 0; step < 40; ++step) {
      for (const NamedTensor& p : parameters) p.tensor.set_grad({});
      const Tensor y = (*model)(tensor_of(waves(0.37), field_shape(), DType::f32));
      const Tensor l = mse_loss(y, tensor_of(waves(0.21), field_shape(), DType::f32));
      losses.push_back(l.item());
      l.backward();
      optimizer.step(2e-3, 1);
    }
    return losses;
  };
  const std::vector<double> f32 = train(false), bf16 = train(true);
  // Later on, where losses are small, the two go ways of their own.
  for (std::size_t step = 0; step < 10; ++step) EXPECT_NEAR(bf16[step], f32[step], 4e-3 * f32[step]) << step;
  EXPECT_LT(f32.back(), 0.1) << "the target's variance is 0.5";
  EXPECT_LT(bf16.back(), 0.1);
}

INSTANTIATE_TEST_SUITE_P(Architectures, MixedPrecision,
                         ::testing::Values(Architecture::vit, Architecture::natten, Architecture::convnet));

}  // namespace
}  // namespace tessera::testing
