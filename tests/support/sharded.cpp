#include "tests/support/sharded.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {

Index pick(Random& random, Index lo, Index hi) {
  return lo + static_cast<Index>(random() % static_cast<std::uint64_t>(hi - lo + 1));
}

std::vector<double> random_values(Random& random, Index count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& v : values) v = static_cast<double>(random() >> 11) * 0x1p-52 - 1.0;
  return values;
}

std::vector<int> all_dims(const Shape& shape) {
  std::vector<int> dims(static_cast<std::size_t>(shape.size()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

const std::vector<Mesh>& meshes(int most_axes) {
  static std::map<int, std::vector<Mesh>> made;
  if (made.count(most_axes)) return made[most_axes];
  const int ranks = world()->size();
  std::vector<Mesh> all;
  const auto add = [&](const std::vector<int>& sizes) {
    std::vector<MeshAxis> axes;
    for (int size : sizes) axes.push_back({"d" + std::to_string(axes.size()), size});
    all.emplace_back(world(), axes);
  };
  add({ranks});
  if (most_axes >= 2) {
    if (ranks == 4) add({2, 2});
    add({1, ranks});
  }
  if (most_axes >= 3) add(ranks == 4 ? std::vector<int>{2, 1, 2} : std::vector<int>{1, ranks, 1});
  return made[most_axes] = all;
}

Partition random_cuts(Random& random, Index extent, int parts, Cuts cuts) {
  if (cuts == Cuts::even) return Partition::even(extent, parts);
  std::vector<Index> points{0, extent};
  for (int p = 1; p < parts; ++p) points.push_back(pick(random, 0, extent));
  std::sort(points.begin(), points.end());
  if (cuts == Cuts::empty && parts > 1) {
    const auto at = static_cast<std::size_t>(pick(random, 0, parts - 1));
    if (at + 1 == static_cast<std::size_t>(parts)) {
      points[at] = extent;
    } else {
      points[at + 1] = points[at];
    }
  }
  return Partition(points);
}

Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape, std::vector<int> dims, Cuts cuts) {
  Placements placements;
  std::vector<Partition> partitions;
  for (int m = 0; m < mesh.axes(); ++m) {
    if (dims.empty() || pick(random, 0, 7) == 0) {
      placements.push_back(Replicate());
      partitions.push_back(Partition::even(0, mesh.axis_size(m)));
      continue;
    }
    const auto at = pick(random, 0, static_cast<Index>(dims.size()) - 1);
    const int dim = dims[static_cast<std::size_t>(at)];
    dims.erase(dims.begin() + at);
    placements.push_back(Shard(dim));
    partitions.push_back(random_cuts(random, shape[dim], mesh.axis_size(m), cuts));
  }
  return Layout(mesh, placements, shape, std::move(partitions));
}

namespace {

/// Evenly spread in [0, 1), a function of its arguments alone.
double spread(Index element, int axis, int coordinate) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(element) * 16 + static_cast<std::uint64_t>(axis)) * 64 +
      static_cast<std::uint64_t>(coordinate);
  return static_cast<double>(Random(key)() >> 11) * 0x1p-53;
}

/// This rank's addend of an element whose value is `value`: value / (ranks of the sum axes) plus one term per
/// Partial axis, which that axis's reduction removes: terms of sums and averages add up to 0, the largest
/// (smallest) of a maximum (minimum) is 0.
double addend(const Layout& layout, Index element, double value) {
  double terms = 0;
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    const Placement& p = layout.placement(a);
    if (!p.is_partial()) continue;
    const int size = layout.mesh().axis_size(a), own = layout.mesh().coords()[a];
    if (p.op == ReduceOp::sum) value /= size;
    if (p.op == ReduceOp::sum || p.op == ReduceOp::avg) {
      terms += spread(element, a, own) - spread(element, a, (own + 1) % size);
    } else if (own != static_cast<int>(spread(element, a, size) * size)) {
      terms += (p.op == ReduceOp::max ? -1 : 1) * (0.25 + spread(element, a, own));
    }
  }
  return value + terms;
}

/// The tensor whose local elements are value(position in `shape`).
template <typename Value>
Tensor filled(const Shape& shape, DType type, const Layout& layout, const Value& value) {
  const Box box = layout ? layout.local_box() : Box::whole(shape);
  std::vector<double> local(static_cast<std::size_t>(box.volume()));
  for (std::size_t i = 0; i < local.size(); ++i) {
    Index rest = static_cast<Index>(i), from = 0, scale = 1;
    for (int d = shape.size() - 1; d >= 0; --d) {
      from += (box[d].lo + rest % box[d].size()) * scale;
      rest /= box[d].size();
      scale *= shape[d];
    }
    local[i] = value(from);
  }
  const Tensor t = layout ? Tensor::empty(layout, type) : Tensor::empty(shape, type);
  t.copy_from_host(std::span<const double>(local));
  return t;
}

}  // namespace

Tensor tensor_of(const std::vector<double>& values, const Shape& shape, DType type, const Layout& layout) {
  return filled(shape, type, layout, [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

Tensor addends_of(const std::vector<double>& values, const Shape& shape, DType type, const Layout& layout) {
  return filled(shape, type, layout, [&](Index i) {
    const double value = values[static_cast<std::size_t>(i)];
    return layout ? addend(layout, i, value) : value;
  });
}

std::vector<double> values_of(const Tensor& t) {
  const NoGrad no_grad;
  return (t.is_shard() ? full_tensor(t) : t).to_host<double>();
}

std::string difference(const std::vector<double>& got, const std::vector<double>& want, double rtol,
                       double atol) {
  if (got.size() != want.size()) {
    return fmt::format("found {} elements, expected {}", got.size(), want.size());
  }
  double largest = 0, worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isfinite(want[i])) largest = std::max(largest, std::abs(want[i]));
    const bool comparable = std::isfinite(got[i]) && std::isfinite(want[i]);
    const bool alike = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    const double error = comparable ? std::abs(got[i] - want[i]) : (alike ? 0 : INFINITY);
    if (error > worst) {
      worst = error;
      at = i;
    }
  }
  if (worst <= atol + rtol * largest) return {};
  return fmt::format("element {} of {}: found {}, expected {}, error {:.2g}, allowed {:.2g}", at, want.size(),
                     got[at], want[at], worst, atol + rtol * largest);
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want, double rtol, double atol,
                  const std::string& what) {
  EXPECT_EQ(difference(got, want, rtol, atol), "") << what;
}

}  // namespace tessera::testing
