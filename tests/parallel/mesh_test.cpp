#include "parallel/mesh.hpp"

#include <gtest/gtest.h>

#include "parallel/layout.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::world;

Mesh make(std::vector<MeshAxis> axes) {
  return Mesh(world(), axes);
}

/// The text of the usage error that the mesh gives.
std::string refusal(std::vector<MeshAxis> axes) {
  try {
    make(std::move(axes));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Mesh, InfersOneSize) {
  const int p = world()->size();
  EXPECT_EQ(to_string(make({{"domain", -1}})), fmt::format("(domain: {})", p));
  EXPECT_EQ(to_string(make({{"ddp", p}, {"domain", -1}})), fmt::format("(ddp: {}, domain: 1)", p));
  EXPECT_EQ(to_string(make({{"ddp", -1}, {"domain", p}, {"z", 1}})),
            fmt::format("(ddp: 1, domain: {}, z: 1)", p));
}

TEST(Mesh, SaysWhatIsWrong) {
  const int p = world()->size();
  const std::string product = refusal({{"ddp", 5}, {"domain", 3}});
  EXPECT_TRUE(contains(product, "15") && contains(product, fmt::format("{} ranks", p))) << product;
  const std::string rest = refusal({{"ddp", 5}, {"domain", -1}});
  EXPECT_TRUE(contains(rest, fmt::format("{} ranks", p)) && contains(rest, "by 5")) << rest;
  EXPECT_TRUE(contains(refusal({{"ddp", -1}, {"domain", -1}}), "more than one size is -1"));
  EXPECT_TRUE(contains(refusal({{"ddp", p}, {"ddp", 1}}), "'ddp' occurs twice"));
  EXPECT_TRUE(contains(refusal({{"ddp", 0}, {"domain", p}}), "size 0 of axis 'ddp'"));
  refusal({});
  // Products beyond an int, one of them 2^32.
  refusal({{"ddp", -1}, {"y", 65536}, {"x", 65536}});
  refusal({{"ddp", 65536}, {"y", 65536}, {"x", 65536}, {"z", 65536}});
  const Mesh mesh = make({{"domain", p}});
  EXPECT_FALSE(mesh.has_axis("ddp"));
  EXPECT_THROW(mesh.axis("ddp"), Error);
}

TEST(Mesh, CoordinatesAreRowMajor) {
  const int p = world()->size();
  const int rows = p % 2 == 0 ? 2 : 1;
  const Mesh mesh = make({{"y", rows}, {"x", -1}});
  for (int r = 0; r < p; ++r) {
    EXPECT_EQ(mesh.coords(r), (MeshCoords{r / (p / rows), r % (p / rows)}));
    EXPECT_EQ(mesh.rank_of(mesh.coords(r)), r);
  }
  EXPECT_EQ(mesh.coords(), mesh.coords(world()->rank()));
}

TEST(Mesh, EveryAxisHasItsCommunicator) {
  const int p = world()->size();
  const int rows = p % 2 == 0 ? 2 : 1;
  const Mesh mesh = make({{"y", rows}, {"x", -1}, {"one", 1}});
  for (int a = 0; a < 3; ++a) {
    Communicator& comm = mesh.axis_comm(a);
    EXPECT_EQ(comm.size(), mesh.axis_size(a));
    EXPECT_EQ(comm.rank(), mesh.coords()[a]);
    EXPECT_EQ(comm.name(), mesh.axis_name(a));
    const std::vector<int> members = comm.all_gather_value(world()->rank());
    for (int r = 0; r < comm.size(); ++r) {
      MeshCoords coords = mesh.coords();
      coords[a] = r;
      EXPECT_EQ(members[static_cast<std::size_t>(r)], mesh.rank_of(coords));
      EXPECT_EQ(comm.world_rank(r), mesh.rank_of(coords));
    }
  }
}

TEST(Mesh, SubMeshesAreCached) {
  const int p = world()->size();
  const int rows = p % 2 == 0 ? 2 : 1;
  const Mesh mesh = make({{"ddp", rows}, {"y", -1}, {"x", 1}});
  const std::vector<std::string> domain{"y", "x"};
  const Mesh sub = mesh.sub(domain);
  EXPECT_EQ(to_string(sub), fmt::format("(y: {}, x: 1)", p / rows));
  EXPECT_EQ(sub.rank(), mesh.coords()[1]);
  EXPECT_TRUE(mesh.sub(domain) == sub);
  EXPECT_EQ(sub.comm().all_reduce_value(mesh.coords()[0], ReduceOp::max), mesh.coords()[0]);
  const std::vector<std::string> swapped{"y", "ddp"};
  const Mesh transposed = mesh.sub(swapped);
  EXPECT_EQ(transposed.rank(), mesh.coords()[1] * rows + mesh.coords()[0]);
  EXPECT_EQ(transposed.comm().world_rank(transposed.rank()), world()->rank());
  const std::vector<std::string> all{"ddp", "y", "x"};
  EXPECT_TRUE(mesh.sub(all) == mesh);
}

TEST(Mesh, WithoutAnAxis) {
  const int p = world()->size();
  const int rows = p % 2 == 0 ? 2 : 1;
  const Mesh mesh = make({{"ddp", rows}, {"y", -1}, {"x", 1}});
  const std::vector<std::string> domain{"y", "x"};
  EXPECT_TRUE(mesh.without("ddp") == mesh.sub(domain));
  EXPECT_TRUE(mesh.without("z") == mesh);
  EXPECT_FALSE(make({{"ddp", p}}).without("ddp"));
}

TEST(Layout, BoxesTileTheIndexSpace) {
  const int p = world()->size();
  const int rows = p % 2 == 0 ? 2 : 1;
  const Mesh mesh = make({{"ddp", 1}, {"y", rows}, {"x", -1}});
  const Layout layout = Layout::even(mesh, {Replicate(), Shard(1), Shard(2)}, {1, 5, 7, 3});
  Index total = 0;
  for (int r = 0; r < p; ++r) {
    total += layout.box(r).volume();
    EXPECT_EQ(layout.range(r, 1), layout.box(r)[1]);
    for (int s = 0; s < r; ++s) EXPECT_TRUE(intersect(layout.box(r), layout.box(s)).is_empty());
  }
  EXPECT_EQ(total, 1 * 5 * 7 * 3);
  EXPECT_EQ(layout.local_box(), layout.box(world()->rank()));
  EXPECT_EQ(layout.local_shape(), layout.local_box().shape());
  EXPECT_EQ(layout.mesh_axis_of(2), 2);
  EXPECT_EQ(layout.mesh_axis_of(3), -1);
  EXPECT_TRUE(layout.is_sharded(1));
  EXPECT_FALSE(layout.is_replicated());
}

TEST(Layout, EqualityAndChanges) {
  const int p = world()->size();
  const Mesh mesh = make({{"domain", p}, {"other", 1}});
  const Layout even = Layout::even(mesh, {Shard(0), Partial()}, {p + 1, 2});
  EXPECT_TRUE(even == Layout::even(mesh, {Shard(0), Partial()}, {p + 1, 2}));
  EXPECT_FALSE(even == Layout::even(mesh, {Shard(0), Replicate()}, {p + 1, 2}));
  EXPECT_FALSE(even == Layout());
  EXPECT_TRUE(even.has_partial());
  EXPECT_TRUE(even.reduced() == Layout::even(mesh, {Shard(0), Replicate()}, {p + 1, 2}));
  std::vector<Index> sizes(static_cast<std::size_t>(p), 0);
  sizes.back() = p + 1;
  const Layout moved = even.with_placement(0, Shard(0), Partition::from_sizes(sizes));
  EXPECT_EQ(moved == even, p == 1);
  EXPECT_EQ(moved.local_shape()[0], world()->rank() == p - 1 ? p + 1 : 0);
  const Layout whole = even.with_placement(0, Replicate()).reduced();
  EXPECT_TRUE(whole.is_replicated());
  EXPECT_TRUE(whole == Layout::replicated(mesh, {p + 1, 2}));
  EXPECT_EQ(to_string(whole),
            fmt::format("({}, 2) [Replicate, Replicate] on (domain: {}, other: 1)", p + 1, p));
}

TEST(Layout, RefusesWhatDoesNotFit) {
  const int p = world()->size();
  const Mesh mesh = make({{"domain", p}, {"other", 1}});
  const Partition good = Partition::even(6, p);
  const Partition one = Partition::even(6, 1);
  EXPECT_NO_THROW(Layout(mesh, {Shard(0), Shard(1)}, {6, 6}, {good, one}));
  EXPECT_THROW(Layout(mesh, {Shard(0)}, {6}, {good}), Error);
  EXPECT_THROW(Layout(mesh, {Shard(1), Replicate()}, {6}, {good, one}), Error);
  EXPECT_THROW(Layout(mesh, {Shard(0), Replicate()}, {7}, {good, one}), Error);
  EXPECT_THROW(Layout(mesh, {Shard(0), Replicate()}, {6}, {Partition::even(6, p + 1), one}), Error);
  EXPECT_THROW(Layout(mesh, {Shard(0), Replicate()}, {6}, {}), Error);
}

/// The text of the error that `make_layout` throws.
std::string nested_refusal(const std::function<Layout()>& make_layout) {
  try {
    make_layout();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Layout, RefusesNestedShardingByName) {
  const int p = world()->size();
  const Mesh mesh = make({{"outer", 1}, {"rows", p}, {"columns", 1}});
  const std::string want =
      "[layout] mesh axes 'rows' and 'columns' both shard dimension 1 of (2, 6), expected one at most";
  const Partition rows = Partition::even(6, p), columns = Partition::even(6, 1);
  EXPECT_EQ(nested_refusal([&] {
              return Layout(mesh, {Replicate(), Shard(1), Shard(1)}, {2, 6}, {columns, rows, columns});
            }),
            want);
  EXPECT_EQ(nested_refusal([&] { return Layout::even(mesh, {Shard(0), Shard(1), Shard(1)}, {2, 6}); }), want);
  const Layout cut = Layout::even(mesh, {Replicate(), Shard(1), Replicate()}, {2, 6});
  EXPECT_EQ(nested_refusal([&] { return cut.with_placement(2, Shard(1), columns); }), want);
}

TEST(Layout, WithAnotherExtent) {
  const int p = world()->size();
  const Mesh mesh = make({{"sums", 1}, {"domain", p}});
  const Layout layout = Layout::even(mesh, {Partial(), Shard(1)}, {2, p + 1, 3});
  const Layout other = Layout::even(mesh, {Partial(), Shard(1)}, {2, p + 1, 8});
  EXPECT_TRUE(layout.with_extent(2, 8) == other);
  EXPECT_TRUE(layout.with_extent(-1, 8) == other);
  EXPECT_TRUE(layout.with_extent(1, p + 1) == layout);
  const auto doubled = [](const Partition& cuts) { return cuts.transposed(2, 2 * cuts.extent()); };
  const Layout twice = layout.with_extent(1, 2 * p + 2, doubled);
  for (int r = 0; r < p; ++r) EXPECT_EQ(twice.range(r, 1).lo, 2 * layout.range(r, 1).lo);
  EXPECT_EQ(twice.shape(), (Shape{2, 2 * p + 2, 3}));
  EXPECT_THROW(layout.with_extent(1, p + 2), Error);
  EXPECT_THROW(layout.with_extent(3, 1), Error);
}

}  // namespace
}  // namespace tessera
