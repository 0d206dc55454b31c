// The Well's layout: written and read back on uneven and empty boxes; files that other programs write.
#include <cmath>
#include <limits>

#include "io/atomic_file.hpp"
#include "io/fields/field_writer.hpp"
#include "io/fields/well_source.hpp"
#include "io/hdf5/file.hpp"
#include "tests/io/io_test_support.hpp"

namespace tessera {
namespace {

using testing::error_text;
using testing::has;
using testing::on_root;
using testing::SharedFolder;
using testing::uneven_box;
using testing::world;

constexpr int kChannels = 7;  // height, vx, vy, stress xx xy yx yy

FieldFileSpec small_spec() {
  FieldFileSpec spec;
  spec.dataset_name = "small";
  spec.time_unit = "s";
  spec.axes = {{"y", "m", {0, 1, 2, 3, 4}, {EdgeKind::wall, EdgeKind::open}},
               {"x", "m", {0, 0.5, 1, 1.5}, {EdgeKind::periodic, EdgeKind::periodic}}};
  spec.fields = {{"stress", "Pa", 2, true},
                 {"height", "m", 0, true},
                 {"velocity", "m/s", 1, true},
                 {"floor", "m", 0, false}};
  spec.scalars = {{"gravity", {9.81}}, {"depth", {1, 2, 3}}};
  spec.trajectories = 3;
  spec.provenance = {{"deck", "a: 1\n"}, {"version", "0.1.0"}};
  return spec;
}

double value_at(Index b, Index t, Index y, Index x, int c) {
  return static_cast<double>((((b * 10 + t) * 5 + y) * 4 + x) * 10 + c);
}

// The channel order of append(): scalar fields first.
template <typename T>
std::vector<T> values_on(const Box& box, Index b, Index t, const std::vector<int>& channels) {
  std::vector<T> values;
  for (Index y = box[0].lo; y < box[0].hi; ++y) {
    for (Index x = box[1].lo; x < box[1].hi; ++x) {
      for (const int c : channels) values.push_back(static_cast<T>(value_at(b, t, y, x, c)));
    }
  }
  return values;
}

const std::vector<int> kAll{0, 1, 2, 3, 4, 5, 6};

template <typename T>
void write_small(const std::string& path, FieldFileSpec spec, const std::vector<Index>& steps) {
  const Box box = uneven_box({5, 4});
  FieldWriter writer(world(), path, std::move(spec));
  for (std::size_t b = 0; b < steps.size(); ++b) {
    const auto trajectory = static_cast<Index>(b);
    const auto floor = values_on<T>(box, trajectory, 0, {9});
    writer.write_static(trajectory, box, floor.data());
    for (Index t = 0; t < steps[b]; ++t) {
      const auto values = values_on<T>(box, trajectory, t, kAll);
      writer.append(trajectory, 0.25 * static_cast<double>(t), box, values.data());
    }
    EXPECT_EQ(writer.steps(trajectory), steps[b]);
  }
  writer.close();
}

template <typename T>
void expect_small(const FieldSourcePtr& source, const Box& box, const std::vector<Index>& steps) {
  const FieldSet& set = source->fields();
  ASSERT_EQ(set.trajectories.size(), steps.size());
  for (std::size_t b = 0; b < steps.size(); ++b) {
    const auto trajectory = static_cast<Index>(b);
    ASSERT_EQ(set.trajectories[b].steps, steps[b]);
    for (Index t = 0; t < steps[b]; ++t) {
      const std::vector<int> channels{set.channel("velocity_y"), set.channel("height"),
                                      set.channel("stress_xy"), set.channel("stress_xx"),
                                      set.channel("floor")};
      // Axis 0 is y, so component y is channel 1 of the buffer and component x channel 2.
      std::vector<T> expected;
      for (Index y = box[0].lo; y < box[0].hi; ++y) {
        for (Index x = box[1].lo; x < box[1].hi; ++x) {
          for (const int c : {1, 0, 5, 6})
            expected.push_back(static_cast<T>(value_at(trajectory, t, y, x, c)));
          expected.push_back(static_cast<T>(value_at(trajectory, 0, y, x, 9)));
        }
      }
      std::vector<T> found(expected.size(), -1);
      source->read(trajectory, t, channels, box, found.data());
      EXPECT_EQ(found, expected) << b << " " << t;
    }
  }
}

TEST(Well, SurvivesARoundTrip) {
  const SharedFolder folder;
  const std::string path = folder.file("small.hdf5");
  write_small<float>(path, small_spec(), {2, 2, 2});
  const auto source = open_well({{path}, {}}, world());
  const FieldSet& set = source->fields();
  EXPECT_EQ(set.name, "small");
  EXPECT_EQ(set.time_unit, "s");
  EXPECT_EQ(set.grid(), (Shape{5, 4}));
  EXPECT_EQ(set.axes[1].coordinates, (std::vector<double>{0, 0.5, 1, 1.5}));
  EXPECT_EQ(set.axes[0].edges, (std::array{EdgeKind::wall, EdgeKind::open}));
  EXPECT_EQ(set.axes[1].edges, (std::array{EdgeKind::periodic, EdgeKind::periodic}));
  EXPECT_EQ(*set.trajectories[1].times, (std::vector<double>{0, 0.25}));
  EXPECT_EQ(set.trajectories[2].parameters.at("depth"), 3);
  EXPECT_EQ(set.trajectories[2].parameters.at("gravity"), 9.81);
  std::vector<std::string> names;
  for (const Channel& c : set.channels) names.push_back(c.name);
  EXPECT_EQ(names, (std::vector<std::string>{"height", "floor", "velocity_y", "velocity_x", "stress_yy",
                                             "stress_yx", "stress_xy", "stress_xx"}));
  EXPECT_FALSE(set.channels[1].time_varying);
  EXPECT_EQ(set.channels[2].unit, "m/s");
  expect_small<float>(source, uneven_box({5, 4}), {2, 2, 2});
  expect_small<double>(source, uneven_box({5, 4}), {2, 2, 2});
  expect_small<float>(open_well({{path}, {}}), {{1, 4}, {2, 3}}, {2, 2, 2});
  EXPECT_EQ(read_provenance(path).at("deck"), "a: 1\n");
}

TEST(Well, RaggedDoubleDeflatedTrajectories) {
  const SharedFolder folder;
  const std::string path = folder.file("ragged.hdf5");
  FieldFileSpec spec = small_spec();
  spec.type = DType::f64;
  spec.deflate = 3;
  write_small<double>(path, spec, {1, 3});  // the third trajectory never came
  const auto source = open_well({{path}, {}}, world());
  expect_small<double>(source, uneven_box({5, 4}), {1, 3});
  EXPECT_EQ(*source->fields().trajectories[1].times, (std::vector<double>{0, 0.25, 0.5}));
}

TEST(Well, NothingIsLeftOfAnUnfinishedFile) {
  const SharedFolder folder;
  const std::string path = folder.file("unfinished.hdf5");
  {
    FieldWriter writer(world(), path, small_spec());
    EXPECT_FALSE(std::filesystem::exists(path));
    world()->barrier();
  }
  world()->barrier();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Where every rank fails while a file is open, the ranks part without waiting for each other.
TEST(Well, NothingIsLeftAfterAnException) {
  const SharedFolder folder;
  const std::string path = folder.file("failed.hdf5");
  has(error_text(
          [&] {
            FieldWriter writer(world(), path, small_spec());
            const Box box = uneven_box({5, 4});
            const auto values = values_on<float>(box, 0, 0, kAll);
            writer.append(0, 0, box, values.data());
            fail(ExitCode::numerical, "solver", "it blew up");
          },
          ExitCode::numerical),
      "[solver] it blew up");
  world()->barrier();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Well, XdmfNamesEveryStepAndComponent) {
  const SharedFolder folder;
  const std::string path = folder.file("small.hdf5");
  write_small<float>(path, small_spec(), {2, 2, 2});
  const std::string text = read_text(folder.file("small.xdmf"));
  has(text, R"(<Topology TopologyType="2DRectMesh" Dimensions="5 4"/>)");
  has(text,
      R"(<DataItem Dimensions="4" NumberType="Float" Precision="4" Format="HDF">small.hdf5:/dimensions/x</DataItem>)");
  has(text, R"(<Time Value="0.25"/>)");
  has(text, R"(<Attribute Name="velocity_x" AttributeType="Scalar" Center="Node">)");
  has(text, R"(<DataItem Dimensions="3 5" Format="XML">2 1 0 0 1  1 1 1 1 1  1 1 5 4 1</DataItem>)");
  has(text, R"(Format="HDF">small.hdf5:/t1_fields/velocity</DataItem>)");
  has(text, R"(<DataItem Dimensions="3 3" Format="XML">2 0 0  1 1 1  1 5 4</DataItem>)");
}

// A file with everything that a reader has to tolerate.
void write_odd_file(const std::string& path, Index samples, const std::string& field = "density") {
  hdf5::File file = hdf5::File::create(path);
  hdf5::Group root = file.root();
  root.set_text("dataset_name", "odd");
  root.set_integer("n_spatial_dims", 2);
  root.set_integer("n_trajectories", samples);
  hdf5::Group dims = root.create_group("dimensions");
  dims.set_texts("spatial_dims", std::vector<std::string>{"x", "y"});
  dims.create_numbers("time", {2}, std::vector<double>{0, 1});
  dims.create_numbers("x", {3}, std::vector<double>{0, 1, 2});
  dims.create_numbers("y", {2}, std::vector<double>{0, 1});
  hdf5::Group wall = root.create_group("boundary_conditions").create_group("sides");
  wall.set_text("bc_type", "Wall");
  wall.set_text("associated_dims", "x");  // a bare string
  wall.create_flags("mask", {true, false, true}, {3});
  hdf5::Group t0 = root.create_group("t0_fields");
  t0.set_texts("field_names", std::vector<std::string>{field, "mask"});
  std::vector<double> values(static_cast<std::size_t>(samples) * 6);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  hdf5::Dataset density = t0.create_numbers(field, {samples, 1, 3, 2}, values);  // time kept at size 1
  density.set_flag("sample_varying", true);
  density.set_flag("time_varying", false);
  hdf5::Dataset mask = t0.create_numbers("mask", {3}, std::vector<double>{7, 8, 9});  // only x is there
  mask.set_flag("sample_varying", false);
  mask.set_flag("time_varying", false);
  mask.set_flags("dim_varying", {true, false});
  root.create_group("t1_fields").set_texts("field_names", {});
  hdf5::Group t2 = root.create_group("t2_fields");
  t2.set_texts("field_names", std::vector<std::string>{"D"});
  std::vector<double> tensor(2 * 3 * 2 * 4);
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<double>(i);
  hdf5::Dataset d = t2.create_numbers("D", {2, 3, 2, 4}, tensor);  // (T, X, Y, D*D)
  d.set_flag("sample_varying", false);
  d.set_flag("time_varying", true);
  file.close();
}

TEST(Well, ToleratesOddFilesAndReadsFolders) {
  const SharedFolder folder;
  on_root([&] {
    write_odd_file(folder.file("b.hdf5"), 1);
    write_odd_file(folder.file("a.h5"), 2);
  });
  const auto source = open_well({{folder.path().string()}, {}}, world());
  const FieldSet& set = source->fields();
  ASSERT_EQ(set.trajectories.size(), 3u);
  EXPECT_EQ(set.axes[0].edges, (std::array{EdgeKind::wall, EdgeKind::wall}));
  EXPECT_EQ(set.axes[1].edges, (std::array{EdgeKind::open, EdgeKind::open}));
  const std::vector<int> channels{set.channel("density"), set.channel("mask"), set.channel("D_yx")};
  std::vector<float> found(3);
  source->read(1, 1, channels, {{2, 3}, {1, 2}}, found.data());
  EXPECT_EQ(found, (std::vector<float>{11, 9, 24 + 5 * 4 + 2}));
  source->read(2, 0, channels, {{0, 1}, {1, 2}}, found.data());
  EXPECT_EQ(found, (std::vector<float>{1, 7, 4 + 2}));
  has(error_text([&] { (void)set.channel("densty"); }), "nearest name 'density'");
}

TEST(Well, FaultsNameFileDatasetAndIndex) {
  const SharedFolder folder;
  const std::string bad = folder.file("bad.hdf5");
  on_root([&] {
    write_odd_file(folder.file("a.hdf5"), 1);
    write_odd_file(folder.file("b.hdf5"), 1, "rho");
    FieldFileSpec spec = small_spec();
    spec.trajectories = 1;
    spec.scalars = {};
    FieldWriter writer(self_communicator(), bad, spec);
    std::vector<float> values = values_on<float>(Box::whole({5, 4}), 0, 0, kAll);
    values[(4 * 4 + 3) * kChannels + 1] = std::numeric_limits<float>::quiet_NaN();
    writer.append(0, 0, Box::whole({5, 4}), values.data());
    writer.close();
  });
  has(error_text([&] {
        open_well({{folder.file("a.hdf5"), folder.file("b.hdf5")}, {}}, world());
      }),
      "b.hdf5] channels: found rho, mask");
  const std::string many = folder.file("many.hdf5");
  on_root([&] {
    hdf5::File file = hdf5::File::create(many);
    hdf5::Group root = file.root();
    root.set_integer("n_trajectories", Index{1} << 40);
    hdf5::Group dims = root.create_group("dimensions");
    dims.set_texts("spatial_dims", std::vector<std::string>{"x"});
    dims.create_numbers("time", {2}, std::vector<double>{0, 1});
    dims.create_numbers("x", {3}, std::vector<double>{0, 1, 2});
    file.close();
  });
  has(error_text([&] { open_well({{many}, {}}, world()); }), "n_trajectories: found 1099511627776");
  // Only the last rank meets the NaN; all of them say so.
  const auto source = open_well({{bad}, {}}, world());
  const std::vector<int> channels{source->fields().channel("velocity_y"), source->fields().channel("height")};
  const Box box = uneven_box({5, 4});
  std::vector<float> values(static_cast<std::size_t>(box.volume() * 2));
  has(error_text([&] { source->read(0, 0, channels, box, values.data()); }),
      "bad.hdf5: /t1_fields/velocity] value at [0, 0, 4, 3, 0]: found nan, expected a finite number");
  const auto filled = open_well({{bad}, {BadValuePolicy::Action::fill, -5}}, world());
  filled->read(0, 0, channels, box, values.data());
  if (box[0].hi == 5 && !box.is_empty()) {
    EXPECT_EQ(values[values.size() - 2], -5);
  }
}

TEST(FieldWriter, ChunksBeginAtCutPoints) {
  const SharedFolder folder;
  FieldFileSpec spec;
  spec.dataset_name = "cut";
  spec.fields = {{"height", "m", 0, true}};
  const auto chunk_with = [&](std::vector<Partition> cuts, const Shape& grid = {1500, 1000}) {
    spec.axes.clear();
    for (int a = 0; a < 2; ++a) {
      GridAxis axis{a == 0 ? "y" : "x", "m", {}, {EdgeKind::wall, EdgeKind::wall}};
      for (Index i = 0; i < grid[a]; ++i) axis.coordinates.push_back(static_cast<double>(i));
      spec.axes.push_back(axis);
    }
    const Box box = uneven_box(grid);
    spec.cuts = std::move(cuts);
    const std::string path = folder.file("cut.h5");
    FieldWriter writer(world(), path, spec);
    writer.append(0, 0.0, box, std::vector<float>(static_cast<std::size_t>(box.volume())).data());
    writer.close();
    const hdf5::File file = hdf5::File::open(path, world().get());
    return file.root().dataset("t0_fields/height").chunk();
  };
  const Partition whole({0, 1000});
  EXPECT_EQ(chunk_with({}), (Shape{1, 1, 750, 1000}));
  EXPECT_EQ(chunk_with({Partition({0, 900, 900, 1500}), whole}), (Shape{1, 1, 900, 1000}));
  EXPECT_EQ(chunk_with({Partition({0, 600, 1200, 1500}), Partition({0, 400, 1000})}),
            (Shape{1, 1, 600, 400}));
  EXPECT_EQ(chunk_with({Partition({0, 1200, 1500}), whole}), (Shape{1, 1, 600, 1000}));
  // Too many elements: parts of equal size.
  EXPECT_EQ(chunk_with({Partition({0, 1001, 2002}), Partition({0, 2002})}, {2002, 2002}),
            (Shape{1, 1, 143, 2002}));
  // No common divisor: chunks of single rows would be worse than ones that two ranks share.
  EXPECT_EQ(chunk_with({Partition({0, 501, 1001, 1500}), whole}), (Shape{1, 1, 750, 1000}));
}

}  // namespace
}  // namespace tessera
