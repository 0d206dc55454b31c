// Plans against a reference that computes one element at a time: random meshes, placements, cut points and
// needs.
#include "parallel/exchange_plan.hpp"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "tests/parallel/device_vector.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::DeviceVector;
using testing::world;

/// The same random decisions on every rank.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  Index between(Index lo, Index hi) { return std::uniform_int_distribution<Index>(lo, hi)(engine_); }
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(engine_) < p; }

 private:
  std::mt19937 engine_;
};

const std::vector<Mesh>& meshes() {
  static const std::vector<Mesh> all = [] {
    std::vector<std::vector<int>> sizes{{-1}, {1, -1}, {-1, 1, 1}};
    if (world()->size() % 2 == 0) sizes.insert(sizes.end(), {{2, -1}, {-1, 2}, {2, 1, -1}});
    std::vector<Mesh> list;
    for (const std::vector<int>& s : sizes) {
      std::vector<MeshAxis> axes;
      for (int size : s) axes.push_back({std::string(1, static_cast<char>('a' + axes.size())), size});
      list.emplace_back(world(), axes);
    }
    return list;
  }();
  return all;
}

Partition random_partition(Random& random, Index extent, int parts) {
  std::vector<Index> cuts{0, extent};
  for (int p = 1; p < parts; ++p) cuts.push_back(random.between(0, extent));
  std::sort(cuts.begin(), cuts.end());
  return Partition(cuts);
}

Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape) {
  Placements placements;
  std::vector<Partition> partitions;
  std::vector<int> free_dims;
  for (int d = 0; d < shape.size(); ++d) free_dims.push_back(d);
  for (int a = 0; a < mesh.axes(); ++a) {
    const bool shard = !free_dims.empty() && random.chance(0.75);
    placements.push_back(Replicate());
    partitions.push_back(Partition::even(0, 1));
    if (!shard) continue;
    const auto pick = static_cast<std::size_t>(random.between(0, static_cast<Index>(free_dims.size()) - 1));
    const int dim = free_dims[pick];
    free_dims.erase(free_dims.begin() + static_cast<std::ptrdiff_t>(pick));
    placements[a] = Shard(dim);
    partitions.back() = random_partition(random, shape[dim], mesh.axis_size(a));
  }
  return Layout(mesh, placements, shape, partitions);
}

/// A halo round the rank's range with any boundary, some other range, a slice with a step, or nothing.
AxisMap random_axis_map(Random& random, Range own, Index n) {
  const int kind = static_cast<int>(random.between(0, 9));
  if (n == 0) return map_with_boundary({random.between(-2, 0), random.between(0, 2)}, 0, Boundary::zero);
  if (kind < 6) {
    const auto boundary = static_cast<Boundary>(random.between(0, 3));
    const Index limit = boundary == Boundary::reflect ? n - 1 : 2 * n + 1;
    const Index lo = own.lo - random.between(0, 3);
    const Index hi = own.hi + random.between(0, 3);
    return map_with_boundary({std::max(lo, -limit), std::min(hi, n + limit)}, n, boundary);
  }
  if (kind < 8) {
    const Index lo = random.between(0, n);
    return map_identity({lo, random.between(lo, n)});
  }
  if (kind == 8) {
    const Index step = random.between(1, 3);
    const Index start = random.between(0, n - 1);
    return map_affine({0, random.between(0, (n - 1 - start) / step + 1)}, start, step);
  }
  return map_affine({0, random.between(0, n)}, n - 1, -1);
}

NeedMap random_need(Random& random, const Layout& layout, int rank) {
  NeedMap need;
  for (int d = 0; d < layout.shape().size(); ++d) {
    need.push_back(random_axis_map(random, layout.range(rank, d), layout.shape()[d]));
  }
  return need;
}

Shape random_shape(Random& random) {
  Shape shape;
  const Index dims = random.between(1, 4);
  for (Index d = 0; d < dims; ++d) shape.push_back(random.chance(0.03) ? 0 : random.between(1, 7));
  return shape;
}

/// Row-major multi-index of a flat one.
Shape unflatten(Index flat, const Shape& shape) {
  Shape index = Shape::filled(shape.size(), 0);
  for (int d = shape.size() - 1; d >= 0; --d) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

/// A number that tells global elements (and replicas) apart.
double value_of(const Shape& global, const Shape& index, int replica) {
  Index flat = 0;
  for (int d = 0; d < global.size(); ++d) flat = flat * global[d] + index[d];
  return static_cast<double>(1 + flat + replica * 100000);
}

/// Coordinates on the axes that do not shard, as one number.
int replica_of(const Layout& layout, int rank) {
  int replica = 0;
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    if (!layout.placement(a).is_shard()) {
      replica = replica * layout.mesh().axis_size(a) + layout.mesh().coords(rank)[a];
    }
  }
  return replica;
}

std::vector<double> source_values(const Layout& layout) {
  std::vector<double> values;
  const Box& box = layout.local_box();
  for (Index i = 0; i < box.volume(); ++i) {
    Shape index = unflatten(i, layout.local_shape());
    for (int d = 0; d < index.size(); ++d) index[d] += box[d].lo;
    values.push_back(value_of(layout.shape(), index, replica_of(layout, layout.mesh().rank())));
  }
  return values;
}

/// Source index of destination index i of an axis, or -1.
Index look_up(const AxisMap& map, Index i) {
  for (const AxisSegment& s : map.segments) {
    if (i >= s.lo && i < s.lo + s.count) return s.from + (i - s.lo) * s.step;
  }
  return -1;
}

constexpr double kUntouched = -1;

std::vector<double> expected_destination(const Layout& layout, const NeedMap& need) {
  Shape shape;
  for (const AxisMap& axis : need) shape.push_back(axis.range.size());
  std::vector<double> values;
  for (Index i = 0; i < count(shape); ++i) {
    const Shape index = unflatten(i, shape);
    Shape source;
    bool covered = true;
    for (int d = 0; d < shape.size(); ++d) {
      source.push_back(look_up(need[d], need[d].range.lo + index[d]));
      covered = covered && source.back() >= 0;
    }
    values.push_back(covered ? value_of(layout.shape(), source, replica_of(layout, layout.mesh().rank()))
                             : kUntouched);
  }
  return values;
}

template <typename T>
std::vector<T> random_integers(Index n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> digit(-3, 3);
  std::vector<T> values;
  for (Index i = 0; i < n; ++i) values.push_back(static_cast<T>(digit(engine)));
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// <A x, y> == <x, A^T y> summed over ranks, exact because all numbers are small integers.
void check_adjoint(const ExchangePlan& plan, unsigned seed) {
  const unsigned own_seed = 1000 * seed + static_cast<unsigned>(world()->rank());
  const std::vector<double> x = random_integers<double>(count(plan.source_shape()), own_seed);
  const std::vector<double> y = random_integers<double>(count(plan.destination_shape()), own_seed + 500);
  const DeviceVector<double> source(x);
  const DeviceVector<double> destination(std::vector<double>(y.size(), 0));
  plan.forward(source.data(), destination.data(), DType::f64);
  const DeviceVector<double> cotangent(y);
  const std::vector<double> start = random_integers<double>(count(plan.source_shape()), own_seed + 250);
  const DeviceVector<double> gradient(start);
  plan.adjoint(cotangent.data(), gradient.data(), DType::f64);
  std::vector<double> added = gradient.to_host();
  for (std::size_t i = 0; i < added.size(); ++i) added[i] -= start[i];
  const double forward = world()->all_reduce_value(dot(destination.to_host(), y), ReduceOp::sum);
  const double adjoint = world()->all_reduce_value(dot(x, added), ReduceOp::sum);
  EXPECT_EQ(forward, adjoint);
}

TEST(ExchangePlan, RandomPlansMatchTheReferenceAndTheirAdjoint) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const Mesh& mesh =
        meshes()[static_cast<std::size_t>(random.between(0, static_cast<Index>(meshes().size()) - 1))];
    const Layout layout = random_layout(random, mesh, random_shape(random));
    std::vector<NeedMap> needs;
    for (int r = 0; r < mesh.size(); ++r) needs.push_back(random_need(random, layout, r));
    const ExchangePlan plan(layout, [&](int rank) { return needs[static_cast<std::size_t>(rank)]; });
    ASSERT_EQ(plan.source_shape(), layout.local_shape());

    const std::vector<double> expected =
        expected_destination(layout, needs[static_cast<std::size_t>(mesh.rank())]);
    const DeviceVector<double> source(source_values(layout));
    const DeviceVector<double> destination(std::vector<double>(expected.size(), kUntouched));
    plan.forward(source.data(), destination.data(), DType::f64);
    EXPECT_EQ(destination.to_host(), expected) << "seed " << seed << ", " << to_string(layout);
    const bool covered = std::count(expected.begin(), expected.end(), kUntouched) == 0;
    EXPECT_EQ(plan.covers_destination(), covered) << "seed " << seed;
    const int messages = world()->all_reduce_value(plan.messages(), ReduceOp::sum);
    EXPECT_EQ(plan.is_local(), messages == 0) << "seed " << seed;
    check_adjoint(plan, seed);
  }
}

TEST(ExchangePlan, SeveralNeedsLieOneBehindAnother) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Random random(seed + 1000);
    const Mesh& mesh =
        meshes()[static_cast<std::size_t>(random.between(0, static_cast<Index>(meshes().size()) - 1))];
    const Layout layout = random_layout(random, mesh, random_shape(random));
    std::vector<std::vector<NeedMap>> needs;
    for (int r = 0; r < mesh.size(); ++r) {
      needs.emplace_back();
      for (Index n = random.between(0, 3); n > 0; --n) needs.back().push_back(random_need(random, layout, r));
    }
    const ExchangePlan plan(layout, [&](int rank) { return needs[static_cast<std::size_t>(rank)]; });
    std::vector<double> expected;
    for (const NeedMap& need : needs[static_cast<std::size_t>(mesh.rank())]) {
      const std::vector<double> one = expected_destination(layout, need);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    ASSERT_EQ(count(plan.destination_shape()), static_cast<Index>(expected.size()));
    const DeviceVector<double> source(source_values(layout));
    const DeviceVector<double> destination(std::vector<double>(expected.size(), kUntouched));
    plan.forward(source.data(), destination.data(), DType::f64);
    EXPECT_EQ(destination.to_host(), expected) << "seed " << seed << ", " << to_string(layout);
    EXPECT_LE(plan.messages(), mesh.size() - 1);  // one to each rank
    check_adjoint(plan, seed);
  }
}

TEST(ExchangePlan, AdjointAddsToWhatIsThereAtTheEnd) {
  const Mesh& mesh = meshes().front();
  const Index n = 2 * mesh.size();
  const Layout layout = Layout::even(mesh, {Shard(0)}, {n});
  const ExchangePlan plan(layout, [&](int rank) {
    const Range own = layout.range(rank, 0);
    return NeedMap{map_with_boundary({own.lo - 1, own.hi + 1}, n, Boundary::periodic)};
  });
  const DeviceVector<double> ones(std::vector<double>(4, 1));
  const DeviceVector<double> gradient(std::vector<double>(2, kUntouched));
  ExchangePlan::Motion motion = plan.start_adjoint(ones.data(), gradient.data(), DType::f64);
  motion.poll();
  const DeviceVector<double> tens(std::vector<double>(2, 10));
  copy_bytes(gradient.data(), MemorySpace::device, tens.data(), MemorySpace::device, 2 * sizeof(double));
  motion.finish();
  EXPECT_EQ(gradient.to_host(), (std::vector<double>{12, 12}));
}

TEST(ExchangePlan, RedistributionReachesEveryLayout) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Mesh& mesh =
        meshes()[static_cast<std::size_t>(random.between(0, static_cast<Index>(meshes().size()) - 1))];
    const Shape shape{random.between(0, 6), random.between(1, 6), random.between(1, 5)};
    const Layout from = random_layout(random, mesh, shape);
    const Layout to = random_layout(random, mesh, shape);
    const ExchangePlan plan(from, [&](int rank) { return need_of(to, rank); });
    EXPECT_EQ(plan.destination_shape(), to.local_shape());
    EXPECT_TRUE(plan.covers_destination());
    const std::vector<double> expected = expected_destination(from, need_of(to, mesh.rank()));
    const DeviceVector<double> source(source_values(from));
    const DeviceVector<double> destination(std::vector<double>(expected.size(), kUntouched));
    plan.forward(source.data(), destination.data(), DType::f64);
    EXPECT_EQ(destination.to_host(), expected) << to_string(from) << " to " << to_string(to);
    check_adjoint(plan, seed);
  }
}

/// A one-dimensional halo of width 2 on both sides, in every element type.
template <typename T>
void check_type(const std::function<T(double)>& make, bool has_adjoint) {
  const Mesh& mesh = meshes().front();
  const Index n = 3 * mesh.size() + 1;
  const Layout layout = Layout::even(mesh, {Shard(0)}, {n, 2});
  const auto need = [&](int rank) {
    const Range own = layout.range(rank, 0);
    return NeedMap{map_with_boundary({own.lo - 2, own.hi + 2}, n, Boundary::periodic), map_identity({0, 2})};
  };
  const ExchangePlan plan(layout, need);
  std::vector<T> values;
  for (Index i = 2 * layout.local_box()[0].lo; i < 2 * layout.local_box()[0].hi; ++i) {
    values.push_back(make(static_cast<double>(i)));
  }
  const DeviceVector<T> source(values);
  const DeviceVector<T> destination(
      std::vector<T>(static_cast<std::size_t>(count(plan.destination_shape()))));
  plan.forward(source.data(), destination.data(), dtype_of<T>);
  const std::vector<T> got = destination.to_host();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Index row = layout.local_box()[0].lo - 2 + static_cast<Index>(i / 2);
    const T expected = make(static_cast<double>(2 * ((row + n) % n) + static_cast<Index>(i % 2)));
    EXPECT_EQ(std::memcmp(&got[i], &expected, sizeof(T)), 0);
  }
  if (!has_adjoint) {
    EXPECT_THROW(plan.adjoint(destination.data(), source.data(), dtype_of<T>), Error);
    return;
  }
  // Each row is read by its owner and by every window of another row within 2: all cotangents are 1, so the
  // gradient counts them.
  const DeviceVector<T> ones(std::vector<T>(got.size(), make(1)));
  const DeviceVector<T> gradient(std::vector<T>(values.size(), make(0)));
  plan.adjoint(ones.data(), gradient.data(), dtype_of<T>);
  const std::vector<T> sums = gradient.to_host();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Index row = layout.local_box()[0].lo + static_cast<Index>(i / 2);
    int readers = 0;
    for (int r = 0; r < mesh.size(); ++r) {
      for (Index j = layout.range(r, 0).lo - 2; j < layout.range(r, 0).hi + 2; ++j)
        readers += (j + n) % n == row;
    }
    const T expected = make(readers);
    EXPECT_EQ(std::memcmp(&sums[i], &expected, sizeof(T)), 0);
  }
}

TEST(ExchangePlan, EveryElementType) {
  check_type<float>([](double v) { return static_cast<float>(v); }, true);
  check_type<double>([](double v) { return v; }, true);
  check_type<std::int32_t>([](double v) { return static_cast<std::int32_t>(v); }, true);
  check_type<std::int64_t>([](double v) { return static_cast<std::int64_t>(v); }, true);
  check_type<bfloat16>([](double v) { return to_bfloat16(static_cast<float>(v)); }, true);
  if (world()->size() > 1) return;  // the error would leave messages of other ranks unreceived
  check_type<std::uint8_t>([](double v) { return static_cast<std::uint8_t>(v); }, false);
}

TEST(ExchangePlan, OneMessagePerNeighbourAndWorkInBetween) {
  const Mesh& mesh = meshes().front();
  const int p = mesh.size();
  const Layout layout = Layout::even(mesh, {Shard(1)}, {2, 4 * p, 3});
  const auto need = [&](int rank) {
    const Range own = layout.range(rank, 1);
    return NeedMap{map_identity({0, 2}), map_with_boundary({own.lo - 1, own.hi + 1}, 4 * p, Boundary::zero),
                   map_identity({0, 3})};
  };
  const ExchangePlan plan(layout, need);
  const int neighbours = (mesh.rank() > 0) + (mesh.rank() + 1 < p);
  EXPECT_EQ(plan.messages(), neighbours);
  EXPECT_EQ(plan.elements_sent(), neighbours * 6);
  EXPECT_EQ(plan.covers_destination(), neighbours == 2);
  CommStats::global().reset();
  const DeviceVector<double> source(source_values(layout));
  const DeviceVector<double> first(std::vector<double>(36, kUntouched));
  const DeviceVector<double> second(std::vector<double>(36, kUntouched));
  {
    const CommScope scope("halo");
    ExchangePlan::Motion a = plan.start(source.data(), first.data(), DType::f64);
    ExchangePlan::Motion b = plan.start(source.data(), second.data(), DType::f64);
    b.finish();
    // `a` is finished by its destructor.
  }
  const std::vector<double> expected = expected_destination(layout, need(mesh.rank()));
  EXPECT_EQ(first.to_host(), expected);
  EXPECT_EQ(second.to_host(), expected);
  EXPECT_EQ(CommStats::global().collective_calls(), 0U);
  EXPECT_EQ(CommStats::global().total("send").calls, static_cast<std::uint64_t>(2 * neighbours));
  EXPECT_EQ(CommStats::global().total("send").bytes, static_cast<std::uint64_t>(2 * neighbours * 6 * 8));
}

TEST(ExchangePlan, LocalPlansNeedNoMesh) {
  // (2, 3) padded by one on each side of the last axis, mirrored: columns 1 0 1 2 1.
  const ExchangePlan plan({2, 3}, {map_identity({0, 2}), map_with_boundary({-1, 4}, 3, Boundary::reflect)});
  EXPECT_TRUE(plan.is_local());
  EXPECT_TRUE(plan.covers_destination());
  const DeviceVector<float> source(std::vector<float>{0, 1, 2, 3, 4, 5});
  const DeviceVector<float> destination(std::vector<float>(10));
  plan.forward(source.data(), destination.data(), DType::f32);
  EXPECT_EQ(destination.to_host(), (std::vector<float>{1, 0, 1, 2, 1, 4, 3, 4, 5, 4}));
  const DeviceVector<float> gradient(std::vector<float>(6, 10));
  plan.adjoint(destination.data(), gradient.data(), DType::f32);
  EXPECT_EQ(gradient.to_host(), (std::vector<float>{10, 13, 12, 13, 22, 15}));
}

TEST(ExchangePlan, RefusesNeedsThatLeaveTheSource) {
  EXPECT_THROW(ExchangePlan({4}, {map_identity({2, 5})}), Error);
  EXPECT_THROW(ExchangePlan({4}, {map_affine({0, 3}, 1, -1)}), Error);
  EXPECT_THROW(ExchangePlan({4, 1}, {map_identity({0, 4})}), Error);
}

}  // namespace
}  // namespace tessera
