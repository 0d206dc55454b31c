// What travels between ranks in models, rings, statistics and reductions: numbers of messages and bytes that
// follow from who owns what, and the operators on which they are booked.
#include <bit>
#include <functional>

#include <gtest/gtest.h>

#include "solver/nn/model.hpp"
#include "solver/ops/attention/attention.hpp"
#include "solver/ops/conv/conv.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/linear/linear.hpp"
#include "solver/ops/norm/norm.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/softmax/softmax.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/solver/traffic.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

// ---------------------------------------------------------------------------------------------------------
// Models

ModelConfig config_of(Architecture architecture, const Shape& grid) {
  ModelConfig c;
  c.architecture = architecture;
  c.grid = grid;
  c.patch = Shape::filled(grid.size(), 2);
  c.in_channels = 3;
  c.out_channels = 2;
  c.dim = 16;
  c.depth = 2;
  c.heads = 2;
  c.kernel_size = 3;
  c.boundary = InlineVector<Boundary>::filled(grid.size(), Boundary::zero);
  c.boundary.back() = Boundary::periodic;
  return c;
}

TEST(ModelTraffic, ForwardPassesUseNoCollectives) {
  for (const Architecture architecture : {Architecture::vit, Architecture::convnet, Architecture::natten}) {
    // Whole patches on every rank, and an extent and cut points that no patch fits.
    for (const Shape& grid : {Shape{24, 20}, Shape{23, 17}, Shape{16, 12, 8}}) {
      for (const Mesh& mesh : domain_meshes()) {
        const auto model = make_model(config_of(architecture, grid));
        Shape shape{1};
        for (const Index n : grid) shape.push_back(n);
        shape.push_back(3);
        const Tensor x = Tensor::zeros(grid_layout(mesh, shape, grid[0] % 2 ? 1 : 2));
        x.set_requires_grad();
        const std::string what = to_string(x.layout()) + " architecture " + std::to_string(int(architecture));
        const Counted seen = counted([&] { (*model)(x); });
        EXPECT_EQ(seen.collectives, 0) << what << "\n" << CommStats::global().report();
        if (mesh.size() > 1) {
          EXPECT_GT(seen.messages.calls, 0) << what;
        }
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------
// Rings, statistics, reductions

TEST(OperatorTraffic, RingAttention) {
  constexpr Index heads = 2, width = 3;
  for (const Mesh& mesh : domain_meshes()) {
    const Layout layout = grid_layout(mesh, Shape{1, 10, 7, heads, width});
    const Tensor q = Tensor::zeros(layout, DType::f64), k = q.clone(), v = q.clone();
    for (const Tensor* t : {&q, &k, &v}) t->set_requires_grad();
    // A block is the keys and values of one rank; at step s a rank passes on that of the s-th rank before it.
    const auto pass_on = [&](int steps) {
      Traffic t;
      for (int s = 0; s < steps; ++s) {
        const int owner = (mesh.rank() + s * (mesh.size() - 1)) % mesh.size();
        const Index tokens = layout.range(owner, 1).size() * layout.range(owner, 2).size();
        t.calls += tokens > 0 ? 1 : 0;
        t.bytes += tokens * 2 * heads * width * 8;
      }
      return t;
    };
    const int ranks = mesh.size();
    Tensor y;
    const Counted forward = counted([&] { y = attention(q, k, v, {.method = AttentionMethod::ring}); });
    EXPECT_EQ(forward.messages, pass_on(ranks - 1)) << to_string(layout);
    // The blocks go round again, and with them their gradients, which return to the owner.
    const Traffic blocks = pass_on(ranks - 1), sums = ranks > 1 ? pass_on(ranks) : Traffic();
    const Counted backward = counted([&] { y.backward(Tensor::zeros(layout, DType::f64)); });
    EXPECT_EQ(backward.messages, (Traffic{blocks.calls + sums.calls, blocks.bytes + sums.bytes}))
        << to_string(layout);
    EXPECT_EQ(forward.collectives + backward.collectives, 0);
  }
}

TEST(OperatorTraffic, Norms) {
  constexpr Index samples = 2, channels = 6, groups = 3;
  struct Form {
    std::string name;
    std::function<Tensor(const Tensor&)> run;
    Index statistics;  // means and variances
  };
  const Form forms[] = {
      {"group_norm", [](const Tensor& x) { return group_norm(x, groups, {}, {}); }, samples * groups},
      {"instance_norm", [](const Tensor& x) { return instance_norm(x, {}, {}); }, samples * channels},
      {"batch_norm", [](const Tensor& x) { return batch_norm(x, {}, {}, {}, {}); }, channels},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, Shape{channels}, {}, {}); }, 0}};
  for (const Form& form : forms) {
    for (const Mesh& mesh : domain_meshes()) {
      const Layout layout = grid_layout(mesh, Shape{samples, 9, 8, channels});
      const Tensor x = Tensor::zeros(layout, DType::f64);
      x.set_requires_grad();
      const Index ranks = mesh.size();
      const auto gathered = [&](Index numbers) {
        const auto rounds = static_cast<Index>(std::bit_width(static_cast<unsigned>(ranks - 1)));
        return form.statistics == 0 ? Traffic()
                                    : Traffic{rounds, (ranks - 1) * form.statistics * numbers * 8};
      };
      Tensor y;
      const Counted forward = counted([&] { y = form.run(x); });
      EXPECT_EQ(forward.messages, gathered(3)) << form.name << to_string(layout);  // count, mean, M2
      const Counted backward = counted([&] { y.backward(Tensor::zeros(layout, DType::f64)); });
      EXPECT_EQ(backward.messages, gathered(2)) << form.name << to_string(layout);  // two sums
      EXPECT_EQ(forward.collectives + backward.collectives, 0) << form.name;
    }
  }
}

TEST(OperatorTraffic, NothingTravelsForLocalOperators) {
  for (const Mesh& mesh : domain_meshes()) {
    const Layout layout = grid_layout(mesh, Shape{1, 9, 8, 6});
    const Tensor x = Tensor::zeros(layout, DType::f64);
    x.set_requires_grad();
    const Tensor weight = Tensor::zeros(Shape{4, 6}, DType::f64), shift = Tensor::zeros(Shape{6}, DType::f64);
    const int grid[] = {1, 2};
    const std::pair<const char*, std::function<Tensor()>> cases[] = {
        {"add", [&] { return add(x, mul(x, shift)); }},
        {"gelu", [&] { return gelu(x); }},
        {"linear", [&] { return linear(x, weight, {}); }},
        {"softmax over channels", [&] { return softmax(x, -1); }},
        {"sum over channels", [&] { return sum(x, std::vector<int>{3}); }},
        {"pending sum over the grid", [&] { return sum(x, grid); }},
        {"reshape",
         [&] {
           return reshape(x, Shape{1, 9, 8, 2, 3});
         }},
        {"permute",
         [&] {
           return permute(x, std::vector<int>{3, 1, 0, 2});
         }},
        {"cumsum over channels", [&] { return cumsum(x, 3); }}};
    for (const auto& [name, run] : cases) {
      const Counted seen = counted([&] {
        const Tensor y = run();
        y.backward(Tensor::zeros(y.layout().reduced(), DType::f64));
      });
      EXPECT_EQ(seen.messages, Traffic()) << name << " of " << to_string(layout);
      EXPECT_EQ(seen.collectives, 0) << name << " of " << to_string(layout);
    }
  }
}

TEST(OperatorTraffic, Reductions) {
  const auto collective = [](const std::function<void()>& body, const char* operation) {
    CommStats::global().reset();
    body();
    const CommCount c = CommStats::global().total(operation);
    EXPECT_EQ(CommStats::global().total("send").calls, 0U);
    EXPECT_EQ(CommStats::global().collective_calls(), c.calls);
    return Traffic{static_cast<Index>(c.calls), static_cast<Index>(c.bytes)};
  };
  const Mesh& mesh = meshes(1)[0];
  const Index several = mesh.size() > 1 ? 1 : 0;
  const Layout layout = grid_layout(mesh, Shape{2, 11, 6});
  const Tensor x = Tensor::zeros(layout, DType::f64);
  x.set_requires_grad();
  const int cut[] = {1};
  Tensor total;
  EXPECT_EQ(collective([&] { total = reduce_partial(sum(x, cut)); }, "all_reduce"),
            (Traffic{1, 2 * 6 * 8} * several));
  EXPECT_EQ(collective([&] { total.backward(Tensor::zeros(total.layout(), DType::f64)); }, "all_reduce"),
            Traffic());
  // Maxima, then sums; in the backward pass one more sum.
  Tensor y;
  EXPECT_EQ(collective([&] { y = softmax(x, 1); }, "all_reduce"), (Traffic{2, 2 * 2 * 6 * 8} * several));
  EXPECT_EQ(collective([&] { y.backward(Tensor::zeros(layout, DType::f64)); }, "all_reduce"),
            (Traffic{1, 2 * 6 * 8} * several));
  // Every rank's total, either way.
  EXPECT_EQ(collective([&] { y = cumsum(x, 1); }, "all_gather"), (Traffic{1, 2 * 6 * 8} * several));
  EXPECT_EQ(collective([&] { y.backward(Tensor::zeros(layout, DType::f64)); }, "all_gather"),
            (Traffic{1, 2 * 6 * 8} * several));
}

// ---------------------------------------------------------------------------------------------------------
// Names

/// The operators on which something was booked.
std::vector<std::string> booked(const std::function<void()>& body) {
  CommStats::global().reset();
  body();
  std::vector<std::string> names;
  for (const auto& [key, count] : CommStats::global().counts()) {
    if (names.empty() || names.back() != key.first) names.push_back(key.first);
  }
  return names;
}

TEST(OperatorNames, ForwardAndBackwardAreToldApart) {
  const Mesh& mesh = meshes(1)[0];
  if (mesh.size() == 1) return;
  using Names = std::vector<std::string>;
  const Layout layout = grid_layout(mesh, Shape{1, 12, 8, 4});
  const Tensor x = Tensor::zeros(layout, DType::f64);
  x.set_requires_grad();
  const Tensor weight = weight_of(4, 4, 3, 2),
               other = Tensor::zeros(Layout::even(mesh, {Shard(2)}, x.shape()), DType::f64);
  for (const Tensor& t : {weight, other}) t.set_requires_grad();
  const ConvOptions same{.padding_lo = {1}, .padding_hi = {1}};
  struct Form {
    std::string name;
    std::function<Tensor()> run;
  };
  const int grid[] = {1, 2};
  const Form forms[] = {
      {"conv", [&] { return conv(x, weight, {}, same); }},  // halo; the weight's gradient is summed
      {"group_norm", [&] { return group_norm(x, 2, {}, {}); }},
      {"mul",
       [&] { return mul(x, other); }},  // brings one operand to the other's layout, and its gradient back
      {"roll", [&] { return roll(x, 1, 3); }},
      {"softmax", [&] { return softmax(x, 1); }},
      {"redistribute", [&] { return redistribute(x, other.layout()); }},
      {"linear",
       [&] {
         return linear(redistribute(x, Layout::even(mesh, {Shard(3)}, x.shape())).detach(),
                       Tensor::zeros(Shape{3, 4}, DType::f64).set_requires_grad(), {});
       }},
      {"var", [&] { return var(x, grid); }}};
  for (const Form& form : forms) {
    Tensor y;
    const Names forward = booked([&] { y = form.run(); });
    for (const std::string& name : forward) {
      EXPECT_TRUE(name == form.name || (form.name == "linear" && name == "redistribute"))
          << name << " by " << form.name;
    }
    const Names backward = booked([&] { y.backward(Tensor::zeros(y.layout().reduced(), DType::f64)); });
    for (const std::string& name : backward) EXPECT_EQ(name, form.name + " backward");
  }
  // Recomputed blocks: both runs under their operators' names; gradients leave the block as one.
  const auto block = [&](std::span<const Tensor> in) { return conv(in[0], weight, {}, same); };
  Tensor y = checkpoint(block, {&x, 1});
  EXPECT_EQ(booked([&] { y.backward(Tensor::zeros(layout, DType::f64)); }),
            (Names{"checkpoint backward", "conv", "conv backward"}));
}

}  // namespace
}  // namespace tessera::testing
