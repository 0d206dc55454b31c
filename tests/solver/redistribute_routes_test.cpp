// What a redistribution sends: the collective that the pattern is, or messages, worked out from boxes alone.
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

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

}  // namespace
}  // namespace tessera::testing
