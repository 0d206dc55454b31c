// Redistribution between all pairs of layouts: values and gradients. What is expected is worked out on the
// host from boxes alone.
#include "solver/tensor/redistribute.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

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

/// Calls and bytes of this rank by operation.
using Table = std::map<std::string, std::pair<Index, Index>>;

Table table_of(const std::function<void()>& body) {
  CommStats::global().reset();
  body();
  Table table;
  for (const auto& [key, c] : CommStats::global().counts()) {
    if (c.calls > 0) table[key.second] = {static_cast<Index>(c.calls), static_cast<Index>(c.bytes)};
  }
  return table;
}

/// What this rank sends point to point so that every rank gets its box of `to`, worked out from boxes: to
/// every other rank one message, where there is something to send.
Table messages(const Layout& from, const Layout& to) {
  const int me = from.mesh().rank();
  std::pair<Index, Index> sent;
  for (int r = 0; r < from.mesh().size(); ++r) {
    const Index n = r == me ? 0 : intersect(from.box(me), to.box(r)).volume();
    if (n > 0) sent = {sent.first + 1, sent.second + 8 * n};
  }
  return sent.first > 0 ? Table{{"send", sent}} : Table{};
}

/// A redistribution of f64 elements and its backward pass, and what they send.
struct Route {
  Layout from, to;
  Table forward, backward;
};

void check_route(const Route& route) {
  SCOPED_TRACE(to_string(route.from) + " -> " + to_string(route.to));
  Random random(11);
  const Tensor x =
      tensor_of(random_values(random, count(route.from.shape())), route.from.shape(), DType::f64, route.from);
  x.set_requires_grad();
  Tensor y;
  EXPECT_EQ(table_of([&] { y = redistribute(x, route.to); }), route.forward) << "forward";
  const Tensor cotangent = Tensor::zeros(route.to.reduced(), DType::f64);
  EXPECT_EQ(table_of([&] { y.backward(cotangent); }), route.backward) << "backward";
}

Table once(const std::string& operation, Index elements) {
  return {{operation, {1, 8 * elements}}};
}

TEST(Redistribute, CommunicationOnOneAxis) {
  const Mesh& mesh = meshes(1)[0];
  const int p = mesh.size();
  const Shape shape{8, 12, 3};
  const Index whole = count(shape);
  Random random(12);
  const auto cut = [&](int dim) {
    return Layout(mesh, {Shard(dim)}, shape, {random_cuts(random, shape[dim], p, Cuts::uneven)});
  };
  const Layout replicated = Layout::replicated(mesh, shape);
  for (int repeat = 0; repeat < 5; ++repeat) {
    const Layout rows = cut(0), columns = cut(1), other_rows = cut(0);
    const Index own = rows.local_box().volume();
    const auto none_alone = [&](Table table) { return p > 1 ? table : Table{}; };
    for (const Layout& shard : {rows, columns}) {
      const Table gather = none_alone(once("all_gather", shard.local_box().volume()));
      check_route({shard, replicated, gather, {}});
      check_route({replicated, shard, {}, gather});
      // Addends that are zero outside a rank's own part need no communication.
      check_route({shard, Layout(mesh, {Partial()}, shape, {}), {}, {}});
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
        const Layout pending(mesh, {Partial(op)}, shape, {});
        check_route({pending, shard, none_alone(once("reduce_scatter", whole)), gather});
        check_route({pending, replicated, none_alone(once("all_reduce", whole)), {}});
      }
      for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
        // The gradient goes to the holders of the extreme, which is reduced once more for it, as is their
        // number.
        const Layout pending(mesh, {Partial(op)}, shape, {});
        Table backward = gather;
        if (p > 1) backward["all_reduce"] = {2, 2 * 8 * whole};
        check_route({pending, shard, none_alone(once("reduce_scatter", whole)), backward});
      }
    }
    const Index kept = intersect(rows.local_box(), columns.local_box()).volume();
    check_route({rows, columns, none_alone(once("all_to_all", own - kept)),
                 none_alone(once("all_to_all", columns.local_box().volume() - kept))});
    check_route({rows, other_rows, messages(rows, other_rows), messages(other_rows, rows)});
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min}) {
      const Table forward = table_of([&] {
        redistribute(Tensor::zeros(replicated, DType::f64), Layout(mesh, {Partial(op)}, shape, {}));
      });
      EXPECT_EQ(forward, Table{});
    }
  }
}

TEST(Redistribute, CommunicationOnTwoAxes) {
  const Mesh& mesh = meshes(2)[1];  // (2, 2), or (1, ranks)
  const Shape shape{8, 12, 3};
  const auto uneven = [&](int axis, int dim) {
    std::vector<double> weights;
    for (int r = 0; r < mesh.axis_size(axis); ++r) weights.push_back(r + 1);
    return Partition::from_weights(shape[dim], weights);
  };
  const auto layout = [&](const Placement& a, const Placement& b) {
    std::vector<Partition> cuts;
    for (const auto& [axis, p] : {std::pair{0, a}, std::pair{1, b}})
      cuts.push_back(p.is_shard() ? uneven(axis, p.dim) : Partition::even(0, 1));
    return Layout(mesh, {a, b}, shape, cuts);
  };
  // Per axis, nothing where it has one rank.
  const auto on = [&](int axis, const std::string& operation, const Layout& contributed) {
    return mesh.axis_size(axis) > 1 ? once(operation, contributed.local_box().volume()) : Table{};
  };
  const auto both = [](Table a, const Table& b) {
    for (const auto& [operation, t] : b) {
      a[operation].first += t.first;
      a[operation].second += t.second;
    }
    return a;
  };
  const Placement r = Replicate(), s0 = Shard(0), s1 = Shard(1), sum = Partial();
  const Layout boxes = layout(s0, s1), rows = layout(s0, r), columns = layout(r, s1), all = layout(r, r);
  check_route({boxes, rows, on(1, "all_gather", boxes), {}});
  check_route({boxes, columns, on(0, "all_gather", boxes), {}});
  check_route({boxes, all, both(on(1, "all_gather", boxes), on(0, "all_gather", rows)), {}});
  check_route({layout(sum, s1), boxes, on(0, "reduce_scatter", columns), on(0, "all_gather", boxes)});
  check_route({layout(s0, sum), boxes, on(1, "reduce_scatter", rows), on(1, "all_gather", boxes)});
  // Scattered first, so that less is left to add up.
  check_route({layout(sum, sum), columns, both(on(1, "reduce_scatter", all), on(0, "all_reduce", columns)),
               on(1, "all_gather", columns)});
  if (mesh.axis_size(0) == 1) return;
  const Layout turned = layout(s1, r), swapped = layout(s1, s0);
  const Index kept = intersect(rows.local_box(), turned.local_box()).volume();
  check_route({rows, turned, once("all_to_all", rows.local_box().volume() - kept),
               once("all_to_all", turned.local_box().volume() - kept)});
  check_route({boxes, swapped, messages(boxes, swapped), messages(swapped, boxes)});
}

TEST(Redistribute, AxesOfOneRankOnlyRename) {
  const Mesh mesh(world(), std::vector<MeshAxis>{{"one", 1}, {"many", world()->size()}});
  const Shape shape{5, 4};
  const Partition whole = Partition::even(5, 1), none = Partition::even(0, 1);
  const std::vector<Placement> kinds{Shard(0),
                                     Replicate(),
                                     Partial(),
                                     Partial(ReduceOp::avg),
                                     Partial(ReduceOp::max),
                                     Partial(ReduceOp::min)};
  Random random(13);
  const Partition columns = random_cuts(random, 4, world()->size(), Cuts::uneven);
  for (const Placement& a : kinds) {
    for (const Placement& b : kinds) {
      const Layout from(mesh, {a, Shard(1)}, shape, {a.is_shard() ? whole : none, columns});
      const Layout to(mesh, {b, Shard(1)}, shape, {b.is_shard() ? whole : none, columns});
      check_route({from, to, {}, {}});
      const Tensor x = Tensor::zeros(from, DType::f64);
      EXPECT_EQ(redistribute(x, to).raw(), x.raw()) << to_string(from) << " -> " << to_string(to);
    }
  }
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

TEST(Promote, GradientIsTheSumOverTheMesh) {
  const Mesh mesh = meshes(1)[0];
  const Tensor w = Tensor::full(Shape{3}, 2.0, DType::f64);
  w.set_requires_grad();
  const Tensor seen = redistribute(promote(w, mesh), Layout::even(mesh, {Shard(0)}, Shape{3}));
  seen.backward(tensor_of({1, 2, 3}, Shape{3}, DType::f64, seen.layout()));
  EXPECT_FALSE(w.grad().is_shard());
  EXPECT_EQ(w.grad().to_host<double>(), (Values{1, 2, 3}));
}

TEST(Local, FromLocalAndToLocalKeepGradientsLocal) {
  const Mesh mesh = meshes(1)[0];
  const double rank = mesh.rank();
  const Layout layout(mesh, {Partial(ReduceOp::avg)}, Shape{2}, {});
  const Tensor local = Tensor::full(Shape{2}, rank, DType::f64);
  local.set_requires_grad();
  const Tensor back = to_local(from_local(local, layout));
  EXPECT_FALSE(back.is_shard());
  back.backward(Tensor::full(Shape{2}, rank + 1, DType::f64));
  EXPECT_EQ(local.grad().to_host<double>(), (Values{rank + 1, rank + 1}));
}

TEST(Local, AverageOfLocals) {
  const Mesh mesh = meshes(1)[0];
  const Layout layout(mesh, {Partial(ReduceOp::avg)}, Shape{2}, {});
  const Tensor local = Tensor::full(Shape{2}, mesh.rank(), DType::f64);
  local.set_requires_grad();
  const Tensor whole = full_tensor(from_local(local, layout));
  EXPECT_DOUBLE_EQ(whole.to_host<double>()[0], (mesh.size() - 1) / 2.0);
  whole.backward(Tensor::full(Shape{2}, 1.0, DType::f64));
  EXPECT_DOUBLE_EQ(local.grad().to_host<double>()[1], 1.0 / mesh.size());
}

TEST(Local, EqualExtremesShareTheGradient) {
  const Mesh mesh = meshes(2).back();
  const Layout layout(mesh, Placements::filled(mesh.axes(), Partial(ReduceOp::max)), Shape{2}, {});
  // Element 0 is the same everywhere; element 1 is largest on the first and the last rank.
  const bool holds = mesh.rank() == 0 || mesh.rank() == mesh.size() - 1;
  const Tensor local = Tensor::from_host<double>(std::vector<double>{1, holds ? 5.0 : 0.0}, Shape{2});
  local.set_requires_grad();
  full_tensor(from_local(local, layout)).backward(Tensor::full(Shape{2}, 1.0, DType::f64));
  const Values got = local.grad().to_host<double>();
  EXPECT_DOUBLE_EQ(got[0], 1.0 / mesh.size());
  EXPECT_DOUBLE_EQ(got[1], holds ? 1.0 / std::min(mesh.size(), 2) : 0.0);
}

}  // namespace
}  // namespace tessera::testing
