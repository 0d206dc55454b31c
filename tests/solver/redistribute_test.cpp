// Redistribution between all pairs of layouts: values and gradients. What is expected is worked out on the
// host from boxes alone.
#include "solver/tensor/redistribute.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "solver/tensor/autograd.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

/// Calls body(position in the box, position in the whole) for every element of a box.
template <typename Body>
void for_box(const Box& box, const Shape& shape, const Body& body) {
  for (Index i = 0; i < box.volume(); ++i) {
    Index rest = i, position = 0, stride = 1;
    for (int d = shape.size() - 1; d >= 0; --d) {
      position += (box[d].lo + rest % box[d].size()) * stride;
      rest /= box[d].size();
      stride *= shape[d];
    }
    body(i, position);
  }
}

/// The row-major number of a rank's coordinates on the Partial axes of a layout, and how many there are.
int addend_of_rank(const Layout& layout, int rank) {
  int number = 0;
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    if (!layout.placement(a).is_partial()) continue;
    number = number * layout.mesh().axis_size(a) + layout.mesh().coords(rank)[a];
  }
  return number;
}

int addends(const Layout& layout) {
  int n = 1;
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    if (layout.placement(a).is_partial()) n *= layout.mesh().axis_size(a);
  }
  return n;
}

double join(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::min:
      return std::min(a, b);
    default:
      return a + b;
  }
}

/// Applies the pending reductions to the addends of a layout, first mesh axis first.
Values reduce_addends(std::vector<Values> parts, const Layout& layout) {
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    if (!layout.placement(a).is_partial()) continue;
    const auto size = static_cast<std::size_t>(layout.mesh().axis_size(a));
    const std::size_t rest = parts.size() / size;
    const ReduceOp op = layout.placement(a).op;
    for (std::size_t r = 0; r < rest; ++r) {
      for (std::size_t i = 0; i < parts[r].size(); ++i) {
        for (std::size_t k = 1; k < size; ++k) parts[r][i] = join(op, parts[r][i], parts[k * rest + r][i]);
        if (op == ReduceOp::avg) parts[r][i] /= static_cast<double>(size);
      }
    }
    parts.resize(rest);
  }
  return parts[0];
}

/// Random addends of a tensor of this layout; those of a layout without Partial axes are its values.
std::vector<Values> random_addends(Random& random, const Layout& layout) {
  std::vector<Values> parts;
  for (int i = 0; i < addends(layout); ++i) parts.push_back(random_values(random, count(layout.shape())));
  return parts;
}

Tensor from_addends(const std::vector<Values>& parts, const Layout& layout, DType type = DType::f64) {
  return tensor_of(parts[at(addend_of_rank(layout, layout.mesh().rank()))], layout.shape(), type, layout);
}

/// The addends of a shard tensor, collected from all ranks; replicas have to be equal.
std::vector<Values> collect(const Tensor& t) {
  const Layout& layout = t.layout();
  Communicator& comm = layout.mesh().comm();
  std::vector<Index> counts;
  Index total = 0;
  for (int r = 0; r < comm.size(); ++r) {
    counts.push_back(layout.box(r).volume());
    total += counts.back();
  }
  const Values local = t.to_host<double>();
  EXPECT_EQ(static_cast<Index>(local.size()), counts[at(comm.rank())]);
  Values all(at(total));
  comm.all_gather(local.data(), all.data(), counts, DType::f64);
  std::vector<Values> parts(at(addends(layout)), Values(at(count(layout.shape())), NAN));
  Index from = 0;
  for (int r = 0; r < comm.size(); ++r) {
    Values& part = parts[at(addend_of_rank(layout, r))];
    for_box(layout.box(r), layout.shape(), [&](Index i, Index position) {
      const double value = all[at(from + i)];
      EXPECT_TRUE(std::isnan(part[at(position)]) || part[at(position)] == value) << "replicas differ";
      part[at(position)] = value;
    });
    from += counts[at(r)];
  }
  return parts;
}

/// Gradient of each addend from that of the reduced value, as reduce_addends reduces.
std::vector<Values> addend_gradients(const std::vector<Values>& parts, const Layout& layout,
                                     const Values& gradient) {
  std::vector<std::vector<Values>> stages{parts};
  std::vector<Placement> kinds;
  std::vector<std::size_t> sizes;
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    if (!layout.placement(a).is_partial()) continue;
    const auto size = at(layout.mesh().axis_size(a));
    const std::vector<Values>& before = stages.back();
    const std::size_t rest = before.size() / size;
    std::vector<Values> after(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(rest));
    for (std::size_t r = 0; r < rest; ++r) {
      for (std::size_t k = 1; k < size; ++k) {
        for (std::size_t i = 0; i < after[r].size(); ++i) {
          after[r][i] = join(layout.placement(a).op, after[r][i], before[k * rest + r][i]);
        }
      }
    }
    kinds.push_back(layout.placement(a));
    sizes.push_back(size);
    stages.push_back(after);
  }
  std::vector<Values> grads{gradient};
  for (std::size_t s = kinds.size(); s-- > 0;) {
    const std::size_t rest = stages[s + 1].size();
    std::vector<Values> before(rest * sizes[s], Values(gradient.size()));
    for (std::size_t p = 0; p < before.size(); ++p) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const bool linear = kinds[s].op == ReduceOp::sum || kinds[s].op == ReduceOp::avg;
        const bool holds = linear || stages[s][p][i] == stages[s + 1][p % rest][i];
        const double share = kinds[s].op == ReduceOp::avg ? 1.0 / static_cast<double>(sizes[s]) : 1.0;
        before[p][i] = holds ? share * grads[p % rest][i] : 0.0;
      }
    }
    grads = before;
  }
  return grads;
}

/// Every combination of placements on the axes of a mesh for two-dimensional tensors.
std::vector<Placements> all_placements(const Mesh& mesh) {
  const Placement each[] = {Shard(0),
                            Shard(1),
                            Replicate(),
                            Partial(),
                            Partial(ReduceOp::avg),
                            Partial(ReduceOp::max),
                            Partial(ReduceOp::min)};
  std::vector<Placements> all{Placements{}};
  for (int a = 0; a < mesh.axes(); ++a) {
    std::vector<Placements> longer;
    for (const Placements& placements : all) {
      for (const Placement& p : each) {
        if (p.is_shard() && std::count(placements.begin(), placements.end(), p)) continue;
        longer.push_back(placements);
        longer.back().push_back(p);
      }
    }
    all = longer;
  }
  return all;
}

Layout cut_at_random(Random& random, const Mesh& mesh, const Placements& placements, const Shape& shape) {
  std::vector<Partition> partitions;
  for (int a = 0; a < mesh.axes(); ++a) {
    const Index extent = placements[a].is_shard() ? shape[placements[a].dim] : 0;
    const auto cuts = static_cast<Cuts>(pick(random, 0, 2));
    partitions.push_back(random_cuts(random, extent, mesh.axis_size(a), cuts));
  }
  return Layout(mesh, placements, shape, partitions);
}

double tolerance_of(DType type) {
  return type == DType::f64 ? 1e-14 : type == DType::f32 ? 1e-6 : type == DType::bf16 ? 2e-2 : 0;
}

/// Random addends that `type` represents exactly: of floating types in [-1, 1), of others in [0, 20).
std::vector<Values> addends_of_type(Random& random, const Layout& layout, DType type) {
  std::vector<Values> parts = random_addends(random, layout);
  for (Values& part : parts) {
    if (!is_floating(type)) {
      for (double& v : part) v = std::floor(10 * (v + 1));
    }
    part = tensor_of(part, layout.shape(), type).to_host<double>();
  }
  return parts;
}

/// A tensor taken along a chain of layouts: the value at the end, and, of floating types, the gradients of
/// the addends at the start under the loss sum(w * value).
void check_chain(Random& random, const std::vector<Layout>& chain, DType type = DType::f64) {
  const Layout& from = chain.front();
  std::string what(name_of(type));
  for (const Layout& layout : chain) what += " -> " + to_string(layout);
  SCOPED_TRACE(what);
  const std::vector<Values> parts = addends_of_type(random, from, type);
  const Values w = random_values(random, count(from.shape()));
  const double tolerance = tolerance_of(type);
  const Tensor x = from_addends(parts, from, type);
  if (is_floating(type)) x.set_requires_grad();
  Tensor y = x;
  for (std::size_t i = 1; i < chain.size(); ++i) {
    y = redistribute(y, chain[i]);
    ASSERT_TRUE(y.layout() == chain[i]);
  }
  const Values want = reduce_addends(parts, from);
  expect_close(reduce_addends(collect(y), y.layout()), want, tolerance, 0, "value");
  const Tensor whole = full_tensor(y);
  expect_close(whole.to_host<double>(), want, tolerance, 0, "full tensor");
  if (!is_floating(type)) return;
  whole.backward(tensor_of(w, from.shape(), type));
  ASSERT_TRUE(x.grad().layout() == from.reduced());
  const std::vector<Values> gradients = addend_gradients(parts, from, w);
  const Values& own = gradients[at(addend_of_rank(from, from.mesh().rank()))];
  expect_close(x.grad().to_host<double>(),
               tensor_of(own, from.shape(), DType::f64, from.reduced()).to_host<double>(), tolerance, 0,
               "gradient");
}

void check_all_pairs(const Mesh& mesh, const Shape& shape, Index keep_one_in) {
  Random random(static_cast<std::uint64_t>(count(shape)));
  const std::vector<Placements> all = all_placements(mesh);
  for (const Placements& a : all) {
    for (const Placements& b : all) {
      if (pick(random, 1, keep_one_in) != 1) continue;
      check_chain(random, {cut_at_random(random, mesh, a, shape), cut_at_random(random, mesh, b, shape)});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Redistribute, AllPairsOneAxis) {
  for (int repeat = 0; repeat < 4; ++repeat) {
    check_all_pairs(meshes(1)[0], Shape{7 + repeat, 5}, 1);
    check_all_pairs(meshes(1)[0], Shape{3, 2 + repeat}, 1);  // fewer rows than ranks
  }
}

TEST(Redistribute, AllPairsTwoAxes) {
  for (const Mesh& mesh : meshes(2)) {
    if (mesh.axes() == 2) check_all_pairs(mesh, Shape{6, 5}, 5);
  }
}

TEST(Redistribute, ThreeAxes) {
  for (const Mesh& mesh : meshes(3)) {
    if (mesh.axes() == 3) check_all_pairs(mesh, Shape{5, 4}, 500);
  }
}

/// Placements of a mesh's axes on which integers have an exact answer.
bool is_average(const Placement& p) {
  return p.is_partial() && p.op == ReduceOp::avg;
}

/// bf16 numbers are equal too often for extremes to have one holder.
bool is_extreme(const Placement& p) {
  return p.is_partial() && (p.op == ReduceOp::max || p.op == ReduceOp::min);
}

TEST(Redistribute, AllPairsOfEveryElementType) {
  Random random(9);
  const Shape shape{5, 4, 3};  // the last dimension is never cut: rows of several elements
  for (const DType type : {DType::f32, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    for (const Mesh& mesh : meshes(2)) {
      const std::vector<Placements> all = all_placements(mesh);
      for (const Placements& a : all) {
        if (!is_floating(type) && std::any_of(a.begin(), a.end(), is_average)) continue;
        if (type == DType::bf16 && std::any_of(a.begin(), a.end(), is_extreme)) continue;
        for (const Placements& b : all) {
          if (mesh.axes() > 1 && pick(random, 1, 20) != 1) continue;
          if (!is_floating(type) && std::any_of(b.begin(), b.end(), is_average)) continue;
          check_chain(random, {cut_at_random(random, mesh, a, shape), cut_at_random(random, mesh, b, shape)},
                      type);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Redistribute, ChainsGiveWhatTheDirectWayGives) {
  Random random(10);
  const Shape shape{6, 5};
  for (const Mesh& mesh : meshes(3)) {
    const std::vector<Placements> all = all_placements(mesh);
    for (int repeat = 0; repeat < 40; ++repeat) {
      std::vector<Layout> chain;
      for (int i = 0; i < 4; ++i) {
        const auto choice = at(pick(random, 0, static_cast<Index>(all.size()) - 1));
        chain.push_back(cut_at_random(random, mesh, all[choice], shape));
      }
      check_chain(random, chain);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Redistribute, CotangentGivenInTheLayoutOfTheResult) {
  Random random(5);
  for (const Mesh& mesh : meshes(2)) {
    const Shape shape{5, 6};
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Layout from = random_layout(random, mesh, shape, {0, 1}, Cuts::uneven);
      const Layout to = random_layout(random, mesh, shape, {0, 1}, Cuts::empty);
      const Values w = random_values(random, count(shape));
      const Tensor x = tensor_of(random_values(random, count(shape)), shape, DType::f64, from);
      x.set_requires_grad();
      const Tensor y = redistribute(x, to);
      y.backward(tensor_of(w, shape, DType::f64, to));
      expect_close(collect(x.grad())[0], w, 0, 0, to_string(from) + " -> " + to_string(to));
    }
  }
}

TEST(Redistribute, EqualLayoutsMoveNothing) {
  Random random(6);
  CommStats::global().reset();
  for (const Mesh& mesh : meshes(2)) {
    const Layout layout = random_layout(random, mesh, Shape{5, 6}, {0, 1}, Cuts::uneven);
    const Tensor x = tensor_of(random_values(random, 30), Shape{5, 6}, DType::f64, layout);
    const Tensor y = redistribute(x, layout);
    EXPECT_EQ(y.raw(), x.raw());
  }
  EXPECT_TRUE(CommStats::global().counts().empty()) << CommStats::global().report();
}

TEST(Redistribute, RefusesOtherShapes) {
  const Mesh mesh = meshes(1)[0];
  const Tensor x = Tensor::zeros(Layout::replicated(mesh, Shape{4}));
  EXPECT_THROW(redistribute(x, Layout::replicated(mesh, Shape{5})), Error);
  EXPECT_THROW(redistribute(Tensor::zeros(Shape{4}), Layout::replicated(mesh, Shape{4})), Error);
}

TEST(Scatter, EveryRankGetsItsBoxFromAnySource) {
  Random random(8);
  const Shape shape{7, 6};
  for (const Mesh& mesh : meshes(3)) {
    for (int source = 0; source < mesh.size(); ++source) {
      const Values values = random_values(random, count(shape));
      const Layout layout = random_layout(random, mesh, shape, {0, 1}, Cuts::empty);
      const Tensor global = mesh.rank() == source ? tensor_of(values, shape) : Tensor();
      const Tensor x = scatter(global, layout, DType::f64, source);
      EXPECT_TRUE(x.is_leaf());
      expect_close(collect(x)[0], values, 0, 0, to_string(layout));
    }
  }
}

}  // namespace
}  // namespace tessera::testing
