// The shallow-water solver gives the same bits on every mesh and partition as on one process.
#include <gtest/gtest.h>

#include <string>

#include "solver/physics/shallow_water_initial.hpp"
#include "tests/solver/shallow_water_cases.hpp"

namespace tessera {
namespace {

using testing::alone;
using testing::basin;
using testing::whole_state;
using testing::world;

// Cut points of `n` cells over `parts`, by kind: even, lopsided, with empty parts, single cells first.
std::vector<Partition> partitions_of(Index n, int parts) {
  std::vector<Index> empty(static_cast<std::size_t>(parts), 0), single(empty.size(), 1),
      lopsided(empty.size(), 3);
  empty.back() = n;
  single.back() = n - (parts - 1);
  lopsided.front() = n - 3 * (parts - 1);
  std::vector<Partition> all{Partition::even(n, parts), Partition::from_sizes(empty),
                             Partition::from_sizes(single), Partition::from_sizes(lopsided)};
  if (parts > 2) {
    std::vector<Index> hole(empty.size(), 0);  // the middle ones own nothing
    hole.front() = n / 2 + 1;
    hole.back() = n - hole.front();
    all.push_back(Partition::from_sizes(hole));
  }
  return all;
}

// Every layout of the basin on the ranks of this launch.
std::vector<Layout> layouts_of(const ShallowWaterOptions& o) {
  const int ranks = world()->size();
  const Shape shape{1, o.ny, o.nx, 3};
  const MeshAxis line{"domain", ranks};
  const Mesh mesh(world(), {&line, 1});
  std::vector<Layout> all;
  for (const Partition& p : partitions_of(o.ny, ranks))
    all.emplace_back(mesh, Placements{Shard(1)}, shape, std::vector{p});
  for (const Partition& p : partitions_of(o.nx, ranks))
    all.emplace_back(mesh, Placements{Shard(2)}, shape, std::vector{p});
  for (int ny = 1; ny <= ranks; ++ny) {
    if (ranks % ny != 0) continue;
    const MeshAxis axes[] = {{"domain_y", ny}, {"domain_x", ranks / ny}};
    const Mesh plane(world(), axes);
    const auto rows = partitions_of(o.ny, ny), columns = partitions_of(o.nx, ranks / ny);
    for (std::size_t k = 0; k < 4; ++k) {
      all.emplace_back(plane, Placements{Shard(1), Shard(2)}, shape, std::vector{rows[k], columns[3 - k]});
    }
    all.emplace_back(plane, Placements{Shard(2), Shard(1)}, shape,
                     std::vector{Partition::even(o.nx, ny), Partition::even(o.ny, ranks / ny)});
  }
  return all;
}

void expect_same_bits(const ShallowWaterOptions& o, const WaterStartOptions& start, double end) {
  ShallowWater reference(o, alone(o));
  set_initial_state(reference, start);
  reference.advance_to(end);
  ASSERT_GT(reference.steps(), 10);
  const std::vector<double> expected = whole_state(reference);
  for (const Layout& layout : layouts_of(o)) {
    ShallowWater solver(o, layout);
    set_initial_state(solver, start);
    solver.advance_to(end);
    EXPECT_EQ(solver.steps(), reference.steps()) << to_string(layout);
    EXPECT_EQ(solver.last_time_step(), reference.last_time_step()) << to_string(layout);
    const std::vector<double> found = whole_state(solver);
    std::size_t differing = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) differing += found[i] != expected[i];
    EXPECT_EQ(differing, 0U) << to_string(layout);
  }
}

TEST(ShallowWaterPartition, WallsAndIslandBitwise) {
  ShallowWaterOptions o = basin(19, 23, 1, 1.3, testing::all_sides(WaterSide::wall));
  o.bathymetry.hills = {{1.2, 0.4, 0.5, 0.15}};
  expect_same_bits(
      o, {.kind = WaterStart::circular_dam, .level = 0.8, .inside = 1.6, .jitter = 0.2, .seed = 3}, 0.1);
}

TEST(ShallowWaterPartition, PeriodicModesBitwise) {
  ShallowWaterOptions o = basin(21, 17, 1, 1, testing::all_sides(WaterSide::periodic));
  o.bathymetry.hills = {{0.4, 0.1, 0.9, 0.2}};
  expect_same_bits(o, {.kind = WaterStart::modes, .amplitude = 0.15, .seed = 11, .trajectory = 4}, 0.1);
}

TEST(ShallowWaterPartition, OpenAndPeriodicBumpsBitwise) {
  const WaterSides sides{WaterSide::open, WaterSide::wall, WaterSide::periodic, WaterSide::periodic};
  ShallowWaterOptions o = basin(16, 300, 0.3, 4, sides);
  o.limiter = SlopeLimiter::central;
  expect_same_bits(o, {.kind = WaterStart::bumps, .count = 5, .amplitude = 0.4, .width = 0.1, .seed = 7},
                   0.1);
}

TEST(ShallowWaterPartition, SinglePrecisionBitwise) {
  ShallowWaterOptions o = basin(15, 18, 1, 1, testing::all_sides(WaterSide::wall));
  o.precision = DType::f32;
  expect_same_bits(o, {.kind = WaterStart::planar_dam, .level = 0, .inside = 1, .axis = 'y'}, 0.1);
}

TEST(ShallowWaterPartition, AChannelOneCellWide) {
  std::vector<std::vector<double>> found;
  for (const WaterSide across : {WaterSide::periodic, WaterSide::wall, WaterSide::open}) {
    ShallowWaterOptions o = basin(1, 40, 0.1, 1, {across, across, WaterSide::wall, WaterSide::open});
    for (const Layout& layout : {alone(o), testing::strips(o, 2), testing::strips(o, 1)}) {
      ShallowWater solver(o, layout);
      set_initial_state(solver, {.kind = WaterStart::planar_dam});
      solver.advance_to(0.1);
      found.push_back(whole_state(solver));
      EXPECT_EQ(found.back(), found.front()) << to_string(layout) << ", side " << static_cast<int>(across);
    }
  }
}

TEST(ShallowWaterPartition, ReplicasAgree) {
  ShallowWaterOptions o = basin(12, 10, 1, 1, testing::all_sides(WaterSide::wall));
  const MeshAxis axis{"ddp", world()->size()};
  ShallowWater solver(o, Layout::replicated(Mesh(world(), {&axis, 1}), {1, o.ny, o.nx, 3}));
  ShallowWater reference(o, alone(o));
  for (ShallowWater* s : {&solver, &reference}) {
    set_initial_state(*s, {.kind = WaterStart::circular_dam});
    s->advance_to(0.1);
  }
  EXPECT_EQ(whole_state(solver), whole_state(reference));
  EXPECT_EQ(solver.volume(), reference.volume());
}

TEST(ShallowWaterInitial, DiffersBetweenTrajectoriesAndSeeds) {
  ShallowWaterOptions o = basin(12, 10, 1, 1, testing::all_sides(WaterSide::periodic));
  ShallowWater solver(o, alone(o));
  const auto start = [&](std::uint64_t seed, std::uint64_t trajectory) {
    set_initial_state(solver, {.kind = WaterStart::modes, .seed = seed, .trajectory = trajectory});
    return whole_state(solver);
  };
  EXPECT_EQ(start(1, 2), start(1, 2));
  EXPECT_NE(start(1, 2), start(1, 3));
  EXPECT_NE(start(1, 2), start(2, 2));
}

TEST(ShallowWaterInitial, OptionsAreChecked) {
  EXPECT_THROW(validate(WaterStartOptions{.axis = 'z'}), Error);
  EXPECT_THROW(validate(WaterStartOptions{.radius = 0}), Error);
  EXPECT_THROW(validate(WaterStartOptions{.width = -1}), Error);
  EXPECT_THROW(validate(WaterStartOptions{.max_wavenumber = 0}), Error);
}

}  // namespace
}  // namespace tessera
