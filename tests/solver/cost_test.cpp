// The counted cost of a model against what CommStats and the allocator see when it runs.
#include <gtest/gtest.h>

#include "parallel/comm_stats.hpp"
#include "parallel/memory.hpp"
#include "solver/nn/cost.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/ops/window/window_parts.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/train/data_parallel.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::world;

ModelConfig config_of(Architecture architecture, const Shape& grid, Index patch) {
  ModelConfig c;
  c.architecture = architecture;
  c.grid = grid;
  c.patch = Shape::filled(grid.size(), patch);
  c.in_channels = 3;
  c.out_channels = 2;
  c.dim = 32;
  c.depth = 2;
  c.heads = 4;
  c.kernel_size = 5;
  if (architecture == Architecture::convnet) {
    c.boundary = InlineVector<Boundary>::filled(grid.size(), Boundary::zero);
    c.boundary.back() = Boundary::periodic;
  }
  return c;
}

/// Cut points of weights 3 : 2 : 3 : 2 ..., rounded to `unit`.
Partition uneven(Index extent, int parts, Index unit) {
  std::vector<double> weights;
  for (int p = 0; p < parts; ++p) weights.push_back(p % 2 ? 2 : 3);
  return Partition::from_weights(extent, weights, unit);
}

/// All ways to cut the grid's axes over all ranks.
std::vector<GridCuts> all_cuts(const Shape& grid, Index unit) {
  const int ranks = world()->size();
  std::vector<std::vector<int>> sizes{{ranks, 1}};
  if (ranks > 1) sizes.push_back({1, ranks});
  if (ranks == 4) sizes.push_back({2, 2});
  std::vector<GridCuts> result;
  for (const auto& parts : sizes) {
    GridCuts cuts;
    for (int a = 0; a < grid.size(); ++a)
      cuts.push_back(uneven(grid[a], a < 2 ? parts[static_cast<std::size_t>(a)] : 1, unit));
    result.push_back(cuts);
  }
  if (ranks > 1) {  // the last rank has nothing
    std::vector<Index> points(result[0][0].cuts().begin(), result[0][0].cuts().end());
    points[points.size() - 2] = points.back();
    result.push_back(result[0]);
    result.back()[0] = Partition(points);
  }
  return result;
}

Layout layout_of(const Mesh& domain, const GridCuts& cuts, Index channels) {
  Shape shape{1};
  Placements placements;
  for (std::size_t a = 0; a < cuts.size(); ++a) {
    shape.push_back(cuts[a].extent());
    placements.push_back(Shard(static_cast<int>(a) + 1));
  }
  shape.push_back(channels);
  return Layout(domain, placements, shape, cuts);
}

TrafficTable measured() {
  TrafficTable table;
  for (const auto& [key, c] : CommStats::global().counts()) {
    if (c.calls > 0) table[key] = {static_cast<Index>(c.calls), static_cast<Index>(c.bytes)};
  }
  return table;
}

std::string to_text(const TrafficTable& table) {
  std::string text;
  for (const auto& [key, t] : table)
    text += fmt::format("{} {}: {} calls, {} bytes\n", key.first, key.second, t.calls, t.bytes);
  return text;
}

Index device_bytes() {
  return static_cast<Index>(memory_use(MemorySpace::device).current);
}

/// A model on a mesh, and one pass of it that is counted.
class Training {
 public:
  Training(const ModelConfig& config, const GridCuts& cuts) : model_(make_model(config)) {
    std::vector<MeshAxis> axes{{"ddp", 1}};
    std::vector<std::string> names;
    for (std::size_t a = 0; a < cuts.size(); ++a) {
      names.push_back("domain_" + std::to_string(a));
      axes.push_back({names.back(), cuts[a].parts()});
    }
    const Mesh mesh(world(), axes);
    const Mesh domain = mesh.sub(names);
    parallel_.emplace(mesh, model_->parameters());
    input_ = Tensor::zeros(layout_of(domain, cuts, config.in_channels));
    target_ = Tensor::zeros(layout_of(domain, cuts, config.out_channels));
  }

  struct Counts {
    TrafficTable forward, backward;
    Traffic gradients;
    Index kept = 0, peak = 0;
  };

  Counts run() {
    Counts counts;
    parallel_->zero_grad();
    parallel_->set_last(true);
    CommStats::global().reset();
    const Index before = device_bytes();
    reset_memory_peak(MemorySpace::device);
    {
      const Tensor loss = mse_loss((*model_)(input_), target_);
      counts.kept = device_bytes() - before;
      counts.forward = measured();
      CommStats::global().reset();
      loss.backward();
    }
    parallel_->finish();
    counts.peak = static_cast<Index>(memory_use(MemorySpace::device).peak) - before;
    counts.backward = measured();
    const auto reduced = counts.backward.find({"gradient reducer", "all_reduce"});
    if (reduced != counts.backward.end()) {
      counts.gradients = reduced->second;
      counts.backward.erase(reduced);
    }
    return counts;
  }

  const Model& model() const { return *model_; }

 private:
  std::shared_ptr<Model> model_;
  std::optional<DataParallel> parallel_;
  Tensor input_, target_;
};

/// Tables of windows are not counted.
void expect_near(Index counted, Index seen, double tolerance, const std::string& what) {
  const double slack = tolerance * static_cast<double>(seen) + 4096;
  EXPECT_NEAR(static_cast<double>(counted), static_cast<double>(seen), slack) << what;
}

void check(const ModelConfig& config, Index unit, const std::string& name) {
  for (const GridCuts& cuts : all_cuts(config.grid, unit)) {
    std::string what = name + (config.recompute ? " recomputed" : "") + (config.bf16_products ? " bf16" : "");
    for (const Partition& p : cuts) what += " " + to_string(p);
    Training training(config, cuts);
    training.run();  // makes groups, plans and primitives
    const Training::Counts seen = training.run();
    const SampleCost counted = sample_cost(config, cuts, world()->rank());
    EXPECT_EQ(counted.forward, seen.forward) << what << "\ncounted\n"
                                             << to_text(counted.forward) << "seen\n"
                                             << to_text(seen.forward);
    EXPECT_EQ(counted.backward, seen.backward) << what << "\ncounted\n"
                                               << to_text(counted.backward) << "seen\n"
                                               << to_text(seen.backward);
    const std::vector<Index> parameters = parameter_counts(config);
    std::vector<Index> expected;
    for (const NamedTensor& p : training.model().parameters()) expected.push_back(count(p.tensor.shape()));
    EXPECT_EQ(parameters, expected) << what;
    const Traffic gradients = gradient_traffic(parameters, config.type);
    EXPECT_EQ(world()->size() > 1 ? gradients : Traffic(), seen.gradients) << what;
    expect_near(counted.kept_bytes, seen.kept, 0.01, what + ", kept");
    expect_near(counted.peak_bytes, seen.peak, 0.02, what + ", peak");
  }
}

struct Way {
  bool recompute = false, bf16 = false;
};

class Cost : public ::testing::TestWithParam<Way> {
 protected:
  ModelConfig this_way(ModelConfig c) const {
    c.recompute = GetParam().recompute;
    c.bf16_products = GetParam().bf16;
    return c;
  }
};

TEST_P(Cost, Vit) {
  check(this_way(config_of(Architecture::vit, {64, 48}, 2)), 2, "vit");
}
TEST_P(Cost, VitWiderThanTheGrid) {
  check(this_way(config_of(Architecture::vit, {61, 46}, 4)), 1, "vit on odd cuts");
}
TEST_P(Cost, Natten) {
  check(this_way(config_of(Architecture::natten, {64, 48}, 2)), 2, "natten");
}
TEST_P(Cost, ConvNet) {
  check(this_way(config_of(Architecture::convnet, {64, 48}, 2)), 2, "convnet");
}
TEST_P(Cost, ConvNetOfSplitWindows) {
  const SplittingScope scope(Splitting::always);
  check(this_way(config_of(Architecture::convnet, {64, 48}, 2)), 2, "split convnet");
  ModelConfig c = config_of(Architecture::convnet, {45, 40}, 1);
  c.stem_kernel = 3;
  check(this_way(c), 1, "split convnet of cells");
  check(this_way(config_of(Architecture::convnet, {20, 18, 12}, 2)), 2, "split convnet in 3-D");
}
TEST_P(Cost, ConvNetWithWideStem) {
  ModelConfig c = config_of(Architecture::convnet, {45, 40}, 1);
  c.stem_kernel = 3;
  check(this_way(c), 1, "convnet of cells");
}
TEST_P(Cost, ThreeAxes) {
  check(this_way(config_of(Architecture::convnet, {20, 18, 12}, 2)), 2, "convnet in 3-D");
  ModelConfig c = config_of(Architecture::natten, {20, 18, 12}, 2);
  c.kernel_size = 3;
  check(this_way(c), 2, "natten in 3-D");
}

INSTANTIATE_TEST_SUITE_P(Ways, Cost,
                         ::testing::Values(Way{}, Way{.recompute = true}, Way{.bf16 = true},
                                           Way{.recompute = true, .bf16 = true}));

}  // namespace
}  // namespace tessera
