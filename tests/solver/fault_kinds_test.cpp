// The kinds of fault that systems of this sort are known for, one test each; each says which wrong
// implementation it would catch.
#include <cmath>

#include <gtest/gtest.h>

#include "parallel/exchange_plan.hpp"
#include "solver/ops/attention/attention.hpp"
#include "solver/ops/conv/conv.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/norm/norm.hpp"
#include "solver/ops/pad/pad.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/softmax/softmax.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/support/operator_case.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

const Mesh& line() {
  return meshes(1)[0];
}

/// Rank r gets r + 1 parts of the extent, or the reverse.
Partition weighted(Index extent, int parts, bool reversed = false) {
  Values weights;
  for (int p = 0; p < parts; ++p) weights.push_back(reversed ? parts - p : p + 1);
  return Partition::from_weights(extent, weights);
}

Layout cut(const Shape& shape, int dim, bool reversed = false) {
  return Layout(line(), {Shard(dim)}, shape, {weighted(shape[dim], line().size(), reversed)});
}

/// Output and gradients under `layouts`, the latter in the layouts of their operands, against one process.
void expect_as_one_process(OperatorCase& c, const std::vector<Layout>& layouts, double tolerance = 1e-12) {
  const Outcome want = run_case(c, DType::f64), got = run_case(c, DType::f64, layouts);
  expect_close(got.outputs[0], want.outputs[0], tolerance, tolerance, c.text + ": y");
  for (std::size_t i = 0; i < want.gradients.size(); ++i) {
    expect_close(got.gradients[i], want.gradients[i], tolerance, tolerance,
                 c.text + ": gradient of " + c.operands[i].name);
  }
}

// Catches: adding the local parts row by row because the placements agree. The parts may even have equal
// sizes in total; values depend on the global row, so a wrong pairing shows.
TEST(FaultKinds, operands_with_equal_placements_and_different_cut_points) {
  const Shape shape{11, 3};
  Random random(1);
  OperatorCase c{"a * b", {}, [](std::span<const Tensor> x) { return mul(x[0], x[1]); }, {}};
  c.add(random, "a", shape, {0});
  c.add(random, "b", shape, {0});
  expect_as_one_process(c, {cut(shape, 0), cut(shape, 0, true)});
  const Tensor y = mul(Tensor::zeros(cut(shape, 0)), Tensor::zeros(cut(shape, 0, true)));
  EXPECT_TRUE(y.layout() == cut(shape, 0));
}

// Catches: halo code that asks for a neighbour where the group has one rank, or that sends to itself.
TEST(FaultKinds, halo_on_a_group_of_one_rank) {
  const Mesh alone(world()->split(world()->rank(), 0, "alone"), std::vector<MeshAxis>{{"y", 1}, {"x", 1}});
  const Shape shape{1, 6, 5, 2};
  Random random(2);
  for (const Boundary boundary : {Boundary::zero, Boundary::periodic, Boundary::reflect}) {
    OperatorCase c{"conv",
                   {},
                   [boundary](std::span<const Tensor> x) {
                     return conv(x[0], x[1], {},
                                 {.padding_lo = {1}, .padding_hi = {1}, .boundary = {boundary, boundary}});
                   },
                   {}};
    c.add(random, "x", shape, {});
    c.add(random, "weight", Shape{2, 2, 3, 3}, {});
    CommStats::global().reset();
    expect_as_one_process(c, {Layout::even(alone, {Shard(1), Shard(2)}, shape), Layout()});
    EXPECT_TRUE(CommStats::global().counts().empty()) << CommStats::global().report();
  }
}

// Catches: padding added by every rank, by the first or last rank of the group though its part is empty, or
// on the wrong side.
TEST(FaultKinds, one_sided_padding_on_uneven_shards) {
  const Shape shape{7, 2};
  Random random(3);
  const int p = line().size();
  std::vector<Layout> layouts{cut(shape, 0), cut(shape, 0, true)};
  for (int empty = 0; empty < p && p > 1; ++empty) {
    std::vector<Index> sizes(static_cast<std::size_t>(p), 0);
    sizes[static_cast<std::size_t>(empty == 0 ? p - 1 : 0)] = 7;
    layouts.push_back(Layout(line(), {Shard(0)}, shape, {Partition::from_sizes(sizes)}));
  }
  for (const auto& [lo, hi] : {std::pair<Index, Index>{3, 0}, {0, 2}}) {
    for (const PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::periodic}) {
      OperatorCase c{"pad",
                     {},
                     [=](std::span<const Tensor> x) {
                       return pad(x[0], Shape{lo, 0}, Shape{hi, 0}, mode, 5);
                     },
                     {}};
      c.add(random, "x", shape, {0});
      for (const Layout& layout : layouts) expect_as_one_process(c, {layout});
    }
  }
}

// Catches: a shard's shape taken from one mesh axis only. Worked out here from the cut points.
TEST(FaultKinds, shard_shapes_on_a_2d_mesh) {
  const Shape shape{7, 9, 2};
  for (const Mesh& mesh : meshes(2)) {
    if (mesh.axes() != 2) continue;
    const Partition rows = weighted(7, mesh.axis_size(0)), columns = weighted(9, mesh.axis_size(1));
    const Layout layout(mesh, {Shard(0), Shard(1)}, shape, {rows, columns});
    for (int r = 0; r < mesh.size(); ++r) {
      const int y = r / mesh.axis_size(1), x = r % mesh.axis_size(1);
      EXPECT_EQ(layout.box(r).shape(), (Shape{rows.range(y).size(), columns.range(x).size(), 2}));
    }
    Random random(4);
    const Values values = random_values(random, count(shape));
    const Tensor t = tensor_of(values, shape, DType::f64, layout);
    EXPECT_EQ(values_of(t), values);
    const Layout turned(mesh, {Shard(1), Shard(0)}, shape,
                        {weighted(9, mesh.axis_size(0), true), weighted(7, mesh.axis_size(1), true)});
    EXPECT_EQ(redistribute(t, turned).local_shape(), turned.box(mesh.rank()).shape());
    EXPECT_EQ(values_of(redistribute(t, turned)), values);
  }
}

// Catches: sizes exchanged before the data. The plan is made by one rank alone, which would hang if it
// asked; then exactly the messages of intersecting boxes are sent.
TEST(FaultKinds, reshard_negotiates_no_shapes) {
  const Shape shape{12, 5};
  const Layout from = cut(shape, 0), to = cut(shape, 0, true);
  const int me = line().rank();
  CommStats::global().reset();
  if (me == 0) {
    const ExchangePlan plan(from, [&](int rank) { return need_of(to, rank); });
    EXPECT_TRUE(CommStats::global().counts().empty());
  }
  const Tensor x = Tensor::zeros(from, DType::f64);
  redistribute(x, to);
  Index calls = 0, bytes = 0;
  for (int r = 0; r < line().size(); ++r) {
    const Index n = r == me ? 0 : intersect(from.box(me), to.box(r)).volume();
    calls += n > 0;
    bytes += 8 * n;
  }
  const CommCount sent = CommStats::global().total("send");
  EXPECT_EQ(static_cast<Index>(sent.calls), calls);
  EXPECT_EQ(static_cast<Index>(sent.bytes), bytes);
  EXPECT_EQ(CommStats::global().collective_calls(), 0U);
}

// Catches: averaging the ranks' means and variances without their counts (uneven shards), and
// E[x^2] - E[x]^2 (a mean of 1000 leaves no digit of the variance in f32).
TEST(FaultKinds, group_norm_on_uneven_shards) {
  const Shape shape{1, 13, 6, 4};
  Random random(6);
  Values values = random_values(random, count(shape));
  for (double& v : values) v = 1000 + v;
  const Tensor plain = tensor_of(values, shape, DType::f32);
  const Values exact = plain.to_host<double>();
  Values want(exact.size());
  for (int group = 0; group < 2; ++group) {
    const auto members = [&](const auto& body) {
      for (std::size_t i = 0; i < exact.size(); ++i) {
        if (static_cast<int>(i % 4) / 2 == group) body(i);
      }
    };
    double mean = 0, variance = 0;
    members([&](std::size_t i) { mean += exact[i] / (13 * 6 * 2); });
    members([&](std::size_t i) { variance += (exact[i] - mean) * (exact[i] - mean) / (13 * 6 * 2); });
    members([&](std::size_t i) { want[i] = (exact[i] - mean) / std::sqrt(variance + 1e-5); });
  }
  for (const bool reversed : {false, true}) {
    const Tensor x = tensor_of(values, shape, DType::f32, cut(shape, 1, reversed));
    expect_close(values_of(group_norm(x, 2, {}, {})), want, 2e-4, 0, "group_norm");
  }
}

// Catches: a backward pass that normalises with the statistics of one block. Scores grow along the keys, so
// that local and global log-sum-exp differ by much.
TEST(FaultKinds, ring_attention_backward_uses_global_statistics) {
  const Shape shape{1, 9, 2, 3};
  Random random(7);
  OperatorCase c{"attention",
                 {},
                 [](std::span<const Tensor> x) {
                   return attention(x[0], x[1], x[2], {.scale = 1.0, .method = AttentionMethod::ring});
                 },
                 {}};
  for (const char* name : {"q", "k", "v"}) c.add(random, name, shape, {1});
  for (std::size_t i = 0; i < c.operands[1].values.size(); ++i)
    c.operands[1].values[i] *= 1 + static_cast<double>(i / 6);
  expect_as_one_process(c, {cut(shape, 1), cut(shape, 1, true), cut(shape, 1, true)}, 1e-11);
}

// Catches: an input gradient that comes back whole, or with even cuts.
TEST(FaultKinds, input_gradient_of_convolution_has_the_input_layout) {
  for (const Mesh& mesh : meshes(2)) {
    const Shape shape{1, 9, 8, 2};
    Random random(8);
    const Layout layout = random_layout(random, mesh, shape, {1, 2}, Cuts::uneven);
    const Tensor x = tensor_of(random_values(random, count(shape)), shape, DType::f64, layout);
    const Tensor weight = tensor_of(random_values(random, 54), Shape{3, 2, 3, 3});
    x.set_requires_grad();
    weight.set_requires_grad();
    const Tensor y = conv(x, weight, {}, {.padding_lo = {1}, .padding_hi = {1}});
    y.backward(Tensor::zeros(y.layout(), DType::f64));
    EXPECT_TRUE(x.grad().layout() == layout) << describe(x.grad());
    EXPECT_FALSE(weight.grad().is_shard());
  }
}

// Catches: a gathered size of ranks * ceil(n / ranks), or ranks * the own size.
TEST(FaultKinds, gathered_size_of_an_uneven_shard) {
  for (Index n = 0; n <= 9; ++n) {
    const Shape shape{n, 2};
    Random random(9);
    const Values values = random_values(random, 2 * n);
    for (const Layout& layout :
         {cut(shape, 0), Layout(line(), {Shard(0)}, shape, {Partition::chunk(n, line().size())})}) {
      const Tensor whole = full_tensor(tensor_of(values, shape, DType::f64, layout));
      EXPECT_EQ(whole.shape(), shape);
      EXPECT_EQ(whole.local_count(), 2 * n);
      EXPECT_EQ(whole.to_host<double>(), values);
    }
  }
}

// Catches: windows that start at a shard's first row instead of at the next multiple of the stride.
TEST(FaultKinds, strided_convolution_at_offsets_not_multiples_of_the_stride) {
  const Shape shape{1, 17, 2};
  Random random(10);
  for (const Index stride : {2, 3, 5}) {
    OperatorCase c{"strided conv",
                   {},
                   [stride](std::span<const Tensor> x) {
                     return conv(x[0], x[1], {}, {.stride = {stride}, .padding_lo = {1}, .padding_hi = {2}});
                   },
                   {}};
    c.add(random, "x", shape, {1});
    c.add(random, "weight", Shape{3, 2, 4}, {});
    for (int repeat = 0; repeat < 6; ++repeat) {
      const Partition cuts = random_cuts(random, 17, line().size(), Cuts::uneven);
      expect_as_one_process(c, {Layout(line(), {Shard(1)}, shape, {cuts}), Layout()});
    }
  }
}

// Catches: a collective that waits for ever, or without naming who is missing, where one rank does not take
// part. (A rank that ends with an error ends the others: guarded_program.)
TEST(FaultKinds, collective_plans_that_diverge) {
  const int ranks = world()->size(), absent = ranks - 1, me = world()->rank();
  if (ranks == 1) return;
  const Shape shape{8, 8};
  const std::pair<const char*, std::pair<Placement, Placement>> cases[] = {
      {"all_gather", {Shard(0), Replicate()}},
      {"reduce_scatter", {Partial(), Shard(1)}},
      {"all_to_all", {Shard(0), Shard(1)}},
      {"all_reduce", {Partial(ReduceOp::max), Replicate()}}};
  for (const auto& [operation, placements] : cases) {
    const Mesh mesh(world(), std::vector<MeshAxis>{{operation, ranks}});
    mesh.axis_comm(0).set_timeout(std::chrono::milliseconds(200));
    if (me != absent) {
      const Tensor x = Tensor::zeros(Layout::even(mesh, {placements.first}, shape));
      std::string text = "no error";
      try {
        redistribute(x, Layout::even(mesh, {placements.second}, shape));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::communication);
        text = error.what();
      }
      EXPECT_NE(text.find(operation), std::string::npos) << text;
      EXPECT_NE(text.find(fmt::format("not arrived: rank {}", absent)), std::string::npos) << text;
    }
    world()->barrier();
  }
}

// Catches: a test bench that starts the ranks once per case. What runs here is itself compared with one
// process, forward and backward.
TEST(FaultKinds, one_launch_runs_hundreds_of_cases) {
  using Op = std::function<Tensor(std::span<const Tensor>)>;
  const std::pair<const char*, Op> ops[] = {
      {"add", [](std::span<const Tensor> x) { return add(x[0], x[1]); }},
      {"mul and sum", [](std::span<const Tensor> x) { return sum(mul(x[0], x[1]), std::vector<int>{1}); }},
      {"softmax", [](std::span<const Tensor> x) { return softmax(sub(x[0], x[1]), 1); }},
      {"pad", [](std::span<const Tensor> x) {
         return pad(add(x[0], x[1]), Shape{0, 2, 1}, Shape{1, 0, 1}, PadMode::periodic);
       }}};
  int cases = 0;
  for (const auto& [name, op] : ops) {
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
      Random random(seed);
      const Shape shape{pick(random, 1, 5), pick(random, 2, 7), pick(random, 1, 4)};
      const Mesh& mesh = meshes()[static_cast<std::size_t>(seed) % meshes().size()];
      OperatorCase c{fmt::format("{} seed {}", name, seed), {}, op, {}};
      c.add(random, "a", shape, {0, 1, 2});
      c.add(random, "b", shape, {0, 1, 2});
      for (const Cuts cuts : {Cuts::even, Cuts::uneven, Cuts::empty}) {
        expect_as_one_process(c, {random_layout(random, mesh, shape, {0, 1, 2}, cuts),
                                  random_layout(random, mesh, shape, {0, 1, 2}, cuts)});
        ++cases;
      }
    }
  }
  EXPECT_GE(cases, 300);
}

}  // namespace
}  // namespace tessera::testing
