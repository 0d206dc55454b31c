// What travels between ranks in operators on (B, *grid, C) whose outputs read a product of index lists, one
// list per dimension: numbers of messages and bytes that follow from who owns what, derived here index by
// index and without the library's plans.
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "solver/ops/conv/conv.hpp"
#include "solver/ops/interpolate/interpolate.hpp"
#include "solver/ops/neighborhood_attention/neighborhood_attention.hpp"
#include "solver/ops/pad/pad.hpp"
#include "solver/ops/pool/pool.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/window/window_parts.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/solver/traffic.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

using Indices = std::vector<Index>;
using Reads = std::vector<Indices>;  // by dimension

Indices range_of(Range r) {
  Indices all(static_cast<std::size_t>(std::max<Index>(r.size(), 0)));
  std::iota(all.begin(), all.end(), r.lo);
  return all;
}

Index inside(const Indices& indices, Range range) {
  return std::count_if(indices.begin(), indices.end(), [&](Index i) { return range.contains(i); });
}

/// What this rank sends when every rank reads reads(rank) of a tensor laid out as `source`.
Traffic forward_traffic(const Layout& source, const std::function<Reads(int rank)>& reads, Index size = 8) {
  Traffic t;
  for (int r = 0; r < source.mesh().size(); ++r) {
    if (r == source.mesh().rank()) continue;
    const Reads theirs = reads(r);
    Index elements = 1;
    for (int d = 0; d < source.shape().size(); ++d)
      elements *= inside(theirs[static_cast<std::size_t>(d)], source.local_box()[d]);
    t.calls += elements > 0 ? 1 : 0;
    t.bytes += elements * size;
  }
  return t;
}

/// The same, backwards: what this rank has read of others goes back to them.
Traffic backward_traffic(const Layout& source, const std::function<Reads(int rank)>& reads, Index size = 8) {
  Traffic t;
  const Reads mine = reads(source.mesh().rank());
  for (int r = 0; r < source.mesh().size(); ++r) {
    if (r == source.mesh().rank()) continue;
    Index elements = 1;
    for (int d = 0; d < source.shape().size(); ++d)
      elements *= inside(mine[static_cast<std::size_t>(d)], source.range(r, d));
    t.calls += elements > 0 ? 1 : 0;
    t.bytes += elements * size;
  }
  return t;
}

/// One grid axis of an operator: where the outputs are cut if the inputs are cut at c, and the inputs that
/// outputs [lo, hi), not none, read.
struct AxisRule {
  std::function<Index(Index cut)> cut;
  std::function<Indices(Range outputs)> reads;
};

struct GridCase {
  std::string name;
  std::function<Tensor(const Tensor&)> run;
  std::function<AxisRule(Index extent)> rule;
  Index exchanges = 1;  ///< of tensors like x
};

void check(const GridCase& c, const Layout& layout) {
  const Tensor x = Tensor::zeros(layout, DType::f64);
  x.set_requires_grad();
  const auto reads = [&](int rank) {
    Reads all;
    for (int d = 0; d < layout.shape().size(); ++d) {
      const Range own = layout.range(rank, d);
      if (d == 0 || d + 1 == layout.shape().size()) {
        all.push_back(range_of(own));
        continue;
      }
      const AxisRule rule = c.rule(layout.shape()[d]);
      const Range outputs{rule.cut(own.lo), rule.cut(own.hi)};
      all.push_back(outputs.empty() ? Indices{} : rule.reads(outputs));
    }
    return all;
  };
  const std::string what = c.name + " of " + to_string(layout);
  Tensor y;
  const Counted forward = counted([&] { y = c.run(x); });
  EXPECT_EQ(forward.messages, forward_traffic(layout, reads) * c.exchanges) << what;
  EXPECT_EQ(forward.collectives, 0) << what;
  const Tensor cotangent = Tensor::zeros(y.layout(), DType::f64);
  const Counted backward = counted([&] { y.backward(cotangent); });
  EXPECT_EQ(backward.messages, backward_traffic(layout, reads) * c.exchanges) << what << ", backward";
  EXPECT_EQ(backward.collectives, 0) << what << ", backward\n" << CommStats::global().report();
}

/// Grids (20, 17) and (13, 9, 7), with whole axes where the mesh has fewer.
void check_on_all(const GridCase& c, Splitting splitting = Splitting::automatic) {
  const SplittingScope scope(splitting);
  for (const Mesh& mesh : domain_meshes()) {
    check(c, grid_layout(mesh, Shape{2, 20, 17, 4}));
    check(c, grid_layout(mesh, Shape{1, 13, 9, 7, 4}));
    // The first rank of every axis owns nothing.
    Layout empty = grid_layout(mesh, Shape{1, 16, 12, 4});
    for (int a = 0; a < mesh.axes(); ++a) {
      const int parts = mesh.axis_size(a);
      if (parts == 1) continue;
      std::vector<Index> cuts(empty.partition(a).cuts().begin(), empty.partition(a).cuts().end());
      cuts[1] = 0;
      empty = empty.with_placement(a, Shard(1 + a), Partition(cuts));
    }
    check(c, empty);
  }
}

Index wrap(Index i, Index n, Boundary boundary) {
  switch (boundary) {
    case Boundary::periodic:
      return ((i % n) + n) % n;
    case Boundary::reflect:
      return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    case Boundary::replicate:
      return std::clamp<Index>(i, 0, n - 1);
    default:
      return i;
  }
}

/// Output j reads inputs j stride - pad ... j stride - pad + reach; what lies outside reads the boundary.
AxisRule window_rule(Index n, Index kernel, Index stride, Index dilation, Index pad, Boundary boundary) {
  const Index reach = dilation * (kernel - 1), outputs = (n + 2 * pad - reach - 1) / stride + 1;
  return {[=](Index c) { return c == n ? outputs : std::min((c + stride - 1) / stride, outputs); },
          [=](Range j) {
            Indices reads;
            for (Index i = j.lo * stride - pad; i <= (j.hi - 1) * stride - pad + reach; ++i) {
              if (boundary != Boundary::zero || (i >= 0 && i < n)) reads.push_back(wrap(i, n, boundary));
            }
            return reads;
          }};
}

TEST(OperatorTraffic, Convolution) {
  struct Form {
    Index kernel, stride, dilation, pad;
    Boundary boundary = Boundary::zero;
  };
  for (const Form& f : {Form{1, 1, 1, 0}, Form{3, 1, 1, 1}, Form{2, 2, 1, 0}, Form{5, 2, 1, 2},
                        Form{3, 1, 2, 2}, Form{3, 1, 1, 1, Boundary::periodic},
                        Form{3, 1, 1, 1, Boundary::reflect}, Form{5, 1, 1, 2, Boundary::replicate}}) {
    const GridCase c{
        "conv " + std::to_string(f.kernel) + " " + std::to_string(f.stride),
        [&](const Tensor& x) {
          const Shape pad{f.pad};
          return conv(x, weight_of(5, 4, f.kernel, x.ndim() - 2), {},
                      {.stride = {f.stride},
                       .padding_lo = pad,
                       .padding_hi = pad,
                       .dilation = {f.dilation},
                       .boundary = {f.boundary}});
        },
        [&](Index n) { return window_rule(n, f.kernel, f.stride, f.dilation, f.pad, f.boundary); }};
    for (const Splitting splitting : {Splitting::never, Splitting::always}) check_on_all(c, splitting);
  }
}

TEST(OperatorTraffic, TransposedConvolution) {
  for (const auto& [kernel, stride, pad] : {std::array<Index, 3>{2, 2, 0}, {3, 2, 1}, {4, 2, 1}, {3, 1, 1}}) {
    const auto rule = [k = kernel, s = stride, p = pad](Index n) {
      const Index outputs = (n - 1) * s - 2 * p + k;
      return AxisRule{[=](Index c) { return c == n ? outputs : std::min(c * s, outputs); },
                      [=](Range j) {
                        Indices reads;
                        for (Index i = 0; i < n; ++i) {  // adds to outputs [i s - p, i s - p + k)
                          if (i * s - p < j.hi && i * s - p + k > j.lo) reads.push_back(i);
                        }
                        return reads;
                      }};
    };
    const GridCase c{"conv_transpose " + std::to_string(kernel) + " " + std::to_string(stride),
                     [k = kernel, s = stride, p = pad](const Tensor& x) {
                       return conv_transpose(x, weight_of(4, 5, k, x.ndim() - 2), {},
                                             {.stride = {s}, .padding = {p}});
                     },
                     rule};
    for (const Splitting splitting : {Splitting::never, Splitting::always}) check_on_all(c, splitting);
  }
}

TEST(OperatorTraffic, Pooling) {
  const auto rule = [](Index n) { return window_rule(n, 3, 2, 1, 1, Boundary::zero); };
  const PoolOptions options{.kernel = {3}, .stride = {2}, .padding = {1}};
  check_on_all({"avg_pool", [&](const Tensor& x) { return avg_pool(x, options); }, rule});
  check_on_all({"max_pool", [&](const Tensor& x) { return max_pool(x, options).values; }, rule});
}

TEST(OperatorTraffic, Padding) {
  const Index lo = 2, hi = 3;
  const std::pair<PadMode, Boundary> modes[] = {{PadMode::constant, Boundary::zero},
                                                {PadMode::reflect, Boundary::reflect},
                                                {PadMode::replicate, Boundary::replicate},
                                                {PadMode::periodic, Boundary::periodic}};
  for (const auto& [mode, boundary] : modes) {
    const auto rule = [boundary = boundary, lo, hi](Index n) {
      // The ranks at the ends take the padding.
      return AxisRule{[=](Index c) { return c == 0   ? 0
                                            : c == n ? n + lo + hi
                                                     : c + lo; },
                      [=](Range j) {
                        Indices reads;
                        for (Index i = j.lo - lo; i < j.hi - lo; ++i) {
                          if (boundary != Boundary::zero || (i >= 0 && i < n))
                            reads.push_back(wrap(i, n, boundary));
                        }
                        return reads;
                      }};
    };
    check_on_all({"pad " + std::to_string(int(mode)),
                  [mode = mode, lo, hi](const Tensor& x) {
                    Shape below = Shape::filled(x.ndim(), lo), above = Shape::filled(x.ndim(), hi);
                    below[0] = above[0] = below.back() = above.back() = 0;
                    return pad(x, below, above, mode);
                  },
                  rule});
  }
}

TEST(OperatorTraffic, Interpolation) {
  const auto run = [](InterpolateMode mode) {
    return [mode](const Tensor& x) {
      Shape size;
      for (int d = 1; d + 1 < x.ndim(); ++d) size.push_back(2 * x.dim(d) + 1);
      return interpolate(x, size, mode);
    };
  };
  const auto cut = [](Index n) {  // to the nearest of 2 n + 1 outputs
    return [n](Index c) { return c == n ? 2 * n + 1 : (2 * c * (2 * n + 1) + n) / (2 * n); };
  };
  const auto rule = [&](bool linear) {
    return [cut, linear](Index n) {
      return AxisRule{cut(n), [=](Range j) {
                        // Input coordinates of the first and the last output.
                        const double ratio = double(n) / double(2 * n + 1);
                        const auto at = [&](Index o) {
                          return linear ? std::max((double(o) + 0.5) * ratio - 0.5, 0.0) : double(o) * ratio;
                        };
                        const Index last = static_cast<Index>(at(j.hi - 1)) + (linear ? 1 : 0);
                        return range_of({static_cast<Index>(at(j.lo)), std::min(last, n - 1) + 1});
                      }};
    };
  };
  check_on_all({"interpolate nearest", run(InterpolateMode::nearest), rule(false)});
  check_on_all({"interpolate linear", run(InterpolateMode::linear), rule(true)});
}

TEST(OperatorTraffic, NeighborhoodAttention) {
  const auto rule = [](Index n) {
    return AxisRule{[](Index c) { return c; },
                    [n](Range j) {
                      const auto first = [n](Index i) { return std::clamp<Index>(i - 2, 0, n - 5); };
                      return range_of({first(j.lo), first(j.hi - 1) + 5});
                    }};
  };
  // Keys and values travel, queries do not.
  check_on_all({"neighborhood_attention",
                [](const Tensor& x) {
                  Shape split = x.shape();
                  split.back() = 2;
                  split.push_back(2);
                  const Tensor t = reshape(x, split);
                  return neighborhood_attention(t, t, t, {.kernel_size = {5}});
                },
                rule, 2});
}

TEST(OperatorTraffic, RollFlipSliceCat) {
  const auto keep = [](Index c) { return c; };
  // Along the first grid axis; the others stay.
  const auto along_first = [&](Index extent, const std::function<Index(Index i, Index n)>& from) {
    return [=](Index n) {
      return AxisRule{keep, [=](Range j) {
                        Indices reads;
                        for (Index i = j.lo; i < j.hi; ++i) reads.push_back(n == extent ? from(i, n) : i);
                        return reads;
                      }};
    };
  };
  for (const Mesh& mesh : domain_meshes()) {
    const Layout layout = grid_layout(mesh, Shape{2, 20, 17, 4});
    check({"roll", [](const Tensor& x) { return roll(x, 1, 7); },
           along_first(20, [](Index i, Index n) { return (i - 7 + n) % n; })},
          layout);
    check({"flip",
           [](const Tensor& x) {
             const int dims[] = {1};
             return flip(x, dims);
           },
           along_first(20, [](Index i, Index n) { return n - 1 - i; })},
          layout);
    check({"slice", [](const Tensor& x) { return slice(x, 1, 3, 18, 2); },
           along_first(20, [](Index i, Index) { return i; })},
          layout);
  }
}

TEST(OperatorTraffic, Cat) {
  // Part p of the joined axis ends where the ends of the operands' parts p add up to.
  for (const Mesh& mesh : domain_meshes()) {
    const Layout one = grid_layout(mesh, Shape{1, 12, 9, 2}), two = grid_layout(mesh, Shape{1, 5, 9, 2});
    const Tensor a = Tensor::zeros(one, DType::f64), b = Tensor::zeros(two, DType::f64);
    a.set_requires_grad();
    b.set_requires_grad();
    const Tensor parts[] = {a, b};
    const auto reads = [&](const Layout& own, Index first) {
      return [&own, &one, &two, first](int rank) {
        Reads all;
        for (int d = 0; d < 4; ++d) all.push_back(range_of(own.range(rank, d)));
        const Range r1 = one.range(rank, 1), r2 = two.range(rank, 1);
        all[1].clear();
        for (Index i = r1.lo + r2.lo; i < r1.hi + r2.hi; ++i) all[1].push_back(i - first);
        return all;
      };
    };
    Tensor y;
    const Counted forward = counted([&] { y = cat(parts, 1); });
    const Traffic t1 = forward_traffic(one, reads(one, 0)), t2 = forward_traffic(two, reads(two, 12));
    EXPECT_EQ(forward.messages, (Traffic{t1.calls + t2.calls, t1.bytes + t2.bytes})) << to_string(one);
    const Counted backward = counted([&] { y.backward(Tensor::zeros(y.layout(), DType::f64)); });
    const Traffic b1 = backward_traffic(one, reads(one, 0)), b2 = backward_traffic(two, reads(two, 12));
    EXPECT_EQ(backward.messages, (Traffic{b1.calls + b2.calls, b1.bytes + b2.bytes})) << to_string(one);
    EXPECT_EQ(forward.collectives + backward.collectives, 0);
  }
}

TEST(OperatorTraffic, OtherCutPoints) {
  for (const Mesh& mesh : domain_meshes()) {
    const Shape shape{2, 20, 17, 4};
    const Layout from = grid_layout(mesh, shape);
    const Layout to = Layout::even(mesh, from.placements(), shape);
    const auto reads = [&](int rank) {
      Reads all;
      for (int d = 0; d < 4; ++d) all.push_back(range_of(to.range(rank, d)));
      return all;
    };
    const Tensor x = Tensor::zeros(from, DType::f64);
    x.set_requires_grad();
    Tensor y;
    const Counted forward = counted([&] { y = redistribute(x, to); });
    EXPECT_EQ(forward.messages, forward_traffic(from, reads)) << to_string(from);
    const Counted backward = counted([&] { y.backward(Tensor::zeros(to, DType::f64)); });
    EXPECT_EQ(backward.messages, backward_traffic(from, reads)) << to_string(from);
    EXPECT_EQ(forward.collectives + backward.collectives, 0);
  }
}

}  // namespace
}  // namespace tessera::testing
