// Samples and training steps on a data set in memory.
#include "solver/train/trainer.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

constexpr Index kRows = 6, kColumns = 4, kSteps = 12;

/// A wave "u" and a constant "depth" per trajectory, on (y, x). One step may hold a NaN.
class Waves : public FieldSource {
 public:
  explicit Waves(Index trajectories, Index bad_step = -1) : bad_step_(bad_step) {
    fields_.name = "waves";
    fields_.axes = {axis("y", kRows), axis("x", kColumns)};
    fields_.channels = {{.name = "u", .unit = "", .field = "u"},
                        {.name = "depth", .unit = "", .field = "depth", .time_varying = false}};
    for (Index r = 0; r < trajectories; ++r) fields_.trajectories.push_back({kSteps, {}, {}, ""});
  }

  void read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
            float* out) override {
    ++reads;
    for (Index y = box[0].lo; y < box[0].hi; ++y) {
      for (Index x = box[1].lo; x < box[1].hi; ++x) {
        for (const int channel : channels) {
          const double wave =
              std::sin(0.5 * static_cast<double>(y + 2 * x + step) + static_cast<double>(trajectory));
          *out++ = channel == 1 ? static_cast<float>(10 * trajectory + y) : static_cast<float>(wave);
          if (channel == 0 && step == bad_step_) out[-1] = std::numeric_limits<float>::quiet_NaN();
        }
      }
    }
  }
  void read(Index, Index, std::span<const int>, const Box&, double*) override { FAIL() << "not used"; }

  int reads = 0;

 private:
  static GridAxis axis(const char* name, Index n) {
    GridAxis a{.name = name, .unit = "", .coordinates = std::vector<double>(static_cast<std::size_t>(n))};
    std::iota(a.coordinates.begin(), a.coordinates.end(), 0.0);
    return a;
  }
  Index bad_step_;
};

Mesh mesh_of_all() {
  const MeshAxis axes[] = {{"ddp", 1}, {"domain", -1}};
  return Mesh(world(), axes);
}

/// (1, y, x, 1), rows over the domain.
Layout grid_on(const Mesh& mesh) {
  const std::string domain = "domain";
  return Layout::even(mesh.sub({&domain, 1}), {Shard(1)}, {1, kRows, kColumns, 1});
}

SampleSpec spec_with_constant() {
  SampleSpec spec;
  spec.fields = {"u"};
  spec.constants = {"depth"};
  spec.coordinates = {{"x", true, {}}};
  return spec;
}

TEST(SampleMaker, ConstantsBelongToTheirTrajectoryAndAreNotKeptForGood) {
  const Layout grid = grid_on(mesh_of_all());
  const auto source = std::make_shared<Waves>(3);
  SampleMaker maker(source, spec_with_constant(), {{0}, {1}}, {{1}, {2}}, grid, 0);
  const Range rows = grid.local_box()[1];
  for (const Index trajectory : {0, 1, 2, 0}) {
    source->reads = 0;
    const SampleMaker::Values values = maker.read(trajectory, 5);
    EXPECT_EQ(source->reads, 3) << "without room in the cache: lag, constants, target";
    ASSERT_EQ(values.input.size(), static_cast<std::size_t>(rows.size() * kColumns * 3));
    for (Index y = rows.lo; y < rows.hi; ++y) {
      for (Index x = 0; x < kColumns; ++x) {
        const float* cell = &values.input[static_cast<std::size_t>(((y - rows.lo) * kColumns + x) * 3)];
        EXPECT_FLOAT_EQ(cell[1], static_cast<float>(10 * trajectory + y - 1) / 2);
        EXPECT_FLOAT_EQ(cell[2], -1 + 2 * static_cast<float>(x) / (kColumns - 1));
      }
    }
  }
}

/// Trains on one trajectory whose step 7 is not finite and whose updates there are left out.
std::unique_ptr<Trainer> make_trainer(std::uint64_t weights_seed) {
  const Mesh mesh = mesh_of_all();
  const Layout grid = grid_on(mesh);
  SampleSpec spec;
  spec.fields = {"u"};
  const auto maker = std::make_shared<SampleMaker>(std::make_shared<Waves>(1, 7), spec,
                                                   Normalisation{{0}, {1}}, Normalisation{}, grid);
  ModelConfig config;
  config.architecture = Architecture::convnet;
  config.grid = {kRows, kColumns};
  config.patch = {1, 1};
  config.dim = 4;
  config.depth = 1;
  config.norm_groups = 2;
  std::vector<SampleId> samples;
  for (Index step = 1; step < kSteps; ++step) samples.push_back({0, step});
  TrainerOptions options;
  options.optimizer.lr = 1e-2;
  options.nan = NanPolicy::skip;
  options.average_decay = 0.9;
  return std::make_unique<Trainer>(
      mesh, std::make_shared<Surrogate>(make_model(config, weights_seed), nullptr), maker, samples, options);
}

TEST(Trainer, ContinuesExactlyAfterUpdatesThatWereLeftOut) {
  constexpr Index kBefore = 11, kAfter = 4;  // an epoch, so that the bad step has been met, and some more
  const auto whole = make_trainer(0), first = make_trainer(0), second = make_trainer(1);
  for (Index i = 0; i < kBefore + kAfter; ++i) whole->step();
  Index left_out = 0;
  for (Index i = 0; i < kBefore; ++i) left_out += first->step().skipped ? 1 : 0;
  ASSERT_GT(left_out, 0);
  EXPECT_EQ(first->updates(), kBefore - left_out);
  const auto saved = first->state(), restored = second->state();
  ASSERT_EQ(saved.size(), restored.size());
  for (std::size_t i = 0; i < saved.size(); ++i) restored[i].tensor.copy_from(saved[i].tensor);
  second->resume_at(first->steps(), first->updates());
  for (Index i = 0; i < kAfter; ++i) second->step();
  const auto want = whole->state(), got = second->state();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].tensor.to_host<float>(), want[i].tensor.to_host<float>()) << want[i].name;
  }
}

}  // namespace
}  // namespace tessera::testing
