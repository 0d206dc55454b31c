// NetCDF-4 and plain HDF5 files described dimension by dimension.
#include "io/fields/generic_source.hpp"

#include <cmath>

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

std::vector<double> counted(Index n, double from = 0) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = from + static_cast<double>(i);
  return values;
}

// (time 4, y 5, x 3) u and v, a static (x, y) mask, packed numbers and a missing-value mark.
void write_file(const std::string& path, double from) {
  hdf5::File file = hdf5::File::create(path);
  hdf5::Group root = file.root();
  root.create_numbers("u", {4, 5, 3}, counted(60, from)).set_text("units", "m/s");
  hdf5::Dataset v = root.create_numbers("v", {4, 5, 3}, counted(60, from));
  v.set_number("scale_factor", 0.5);
  v.set_number("add_offset", 100);
  v.set_numbers("_FillValue", std::vector<double>{from + 59});
  root.create_numbers("mask", {3, 5}, counted(15));
  root.create_numbers("t", {4}, counted(4, from)).set_text("units", "days since 2000-01-01");
  root.create_numbers("lat", {5}, std::vector<double>{-2, -1, 0, 1, 2}).set_text("units", "degrees_north");
  root.create_numbers("all", {4, 2, 5, 3}, counted(120, from));
  root.create_numbers("runs", {2, 5, 3, 4}, counted(120, from));
  file.close();
}

GenericSourceSpec wind_spec(const std::string& path) {
  GenericSourceSpec spec;
  spec.paths = {path};
  spec.dims = {"time", "y", "x"};
  spec.variables = {{"u", {"UWND"}, "", {}}, {"v", {}, "knots", {}}, {"mask", {}, "", {"x", "y"}}};
  spec.time = "t";
  spec.coordinates = {{"y", "lat"}};
  spec.edges = {{"x", EdgeKind::periodic}};
  return spec;
}

TEST(Generic, OneDatasetPerChannel) {
  const SharedFolder folder;
  on_root([&] { write_file(folder.file("a.nc"), 0); });
  const auto source = open_generic(wind_spec(folder.file("a.nc")), world());
  const FieldSet& set = source->fields();
  EXPECT_EQ(set.grid(), (Shape{5, 3}));
  EXPECT_EQ(set.axes[0].unit, "degrees_north");
  EXPECT_EQ(set.axes[0].coordinates.front(), -2);
  EXPECT_EQ(set.axes[1].coordinates, (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(set.axes[1].edges[0], EdgeKind::periodic);
  EXPECT_EQ(set.time_unit, "days since 2000-01-01");
  ASSERT_EQ(set.trajectories.size(), 1u);
  EXPECT_EQ(*set.trajectories[0].times, (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(set.channels[0].name + set.channels[0].unit + set.channels[1].name + set.channels[1].unit,
            "UWNDm/svknots");
  EXPECT_FALSE(set.channels[2].time_varying);
  const Box box = uneven_box({5, 3});
  std::vector<float> expected;
  for (Index y = box[0].lo; y < box[0].hi; ++y) {
    for (Index x = 0; x < 3; ++x) {
      const auto n = static_cast<float>(30 + y * 3 + x);
      expected.insert(expected.end(), {static_cast<float>(x * 5 + y), n, 100 + n / 2});
    }
  }
  std::vector<float> found(expected.size(), -1);
  source->read(0, 2, std::vector<int>{2, 0, 1}, box, found.data());
  EXPECT_EQ(found, expected);
}

TEST(Generic, MissingValuesFollowThePolicy) {
  const SharedFolder folder;
  const std::string path = folder.file("a.nc");
  on_root([&] { write_file(path, 0); });
  const Box box = uneven_box({5, 3});
  std::vector<double> values(static_cast<std::size_t>(box.volume()));
  GenericSourceSpec spec = wind_spec(path);
  has(error_text([&] { open_generic(spec, world())->read(0, 3, std::vector<int>{1}, box, values.data()); }),
      "a.nc: /v] value at [3, 4, 2]: found the missing-value mark 59, expected a finite number");
  const bool has_last = !box.is_empty() && box[0].hi == 5;
  spec.bad_values = {BadValuePolicy::Action::fill, -1};
  open_generic(spec, world())->read(0, 3, std::vector<int>{1}, box, values.data());
  if (has_last) {
    EXPECT_EQ(values.back(), -1);
  }
  spec.bad_values = {BadValuePolicy::Action::keep, 0};
  open_generic(spec, world())->read(0, 3, std::vector<int>{1}, box, values.data());
  if (has_last) {
    EXPECT_TRUE(std::isnan(values.back()));
  }
}

// A channel axis, files that continue one another, a sample axis, a picked index, any order of dimensions.
TEST(Generic, AxesOfEveryMeaning) {
  const SharedFolder folder;
  on_root([&] {
    write_file(folder.file("1.nc"), 0);
    write_file(folder.file("2.nc"), 1000);
  });
  GenericSourceSpec spec;
  spec.paths = {folder.path().string()};
  spec.join = GenericSourceSpec::Join::time;
  spec.dims = {"time", "channel", "y", "x"};
  spec.variables = {{"all", {}, "", {}}, {"u", {}, "", {"time", "=4", "x"}}};
  spec.time = "t";
  auto source = open_generic(spec, world());
  ASSERT_EQ(source->fields().trajectories.size(), 1u);
  EXPECT_EQ(source->fields().trajectories[0].steps, 8);
  EXPECT_EQ((*source->fields().trajectories[0].times)[5], 1001);
  EXPECT_EQ(source->fields().channels[1].name, "all_1");
  std::vector<float> found(3);
  source->read(0, 6, std::vector<int>{0, 1, 2}, {{3, 4}, {2, 3}}, found.data());
  EXPECT_EQ(found, (std::vector<float>{1000 + 60 + 11, 1000 + 60 + 15 + 11, 1000 + 30 + 14}));

  spec.join = GenericSourceSpec::Join::sample;
  spec.dims = {"sample", "y", "x", "channel"};
  spec.variables = {{"runs", {"a", "b", "c", "d"}, "", {}}};
  spec.time = "";
  source = open_generic(spec, world());
  ASSERT_EQ(source->fields().trajectories.size(), 4u);
  EXPECT_EQ(source->fields().trajectories[3].steps, 1);
  source->read(3, 0, std::vector<int>{1, 2, 0}, {{1, 2}, {0, 1}}, found.data());
  EXPECT_EQ(found, (std::vector<float>{1000 + 60 + 12 + 1, 1000 + 60 + 12 + 2, 1000 + 60 + 12}));
}

TEST(Generic, FaultsAreNamed) {
  const SharedFolder folder;
  const std::string path = folder.file("a.nc");
  on_root([&] { write_file(path, 0); });
  auto opening = [&](const std::function<void(GenericSourceSpec&)>& change) {
    return [&, change] {
      GenericSourceSpec spec = wind_spec(path);
      change(spec);
      open_generic(spec, world());
    };
  };
  has(error_text(opening([](auto& s) { s.variables[0].dataset = "uu"; })),
      "no such dataset; nearest name '/u'");
  has(error_text(opening([](auto& s) { s.dims.push_back("z"); })),
      "shape: found (4, 5, 3), expected (time, y, x, z)");
  has(error_text(opening([](auto& s) {
        s.variables[2].dims = {"y", "x"};
      })),
      "/mask] dimension 'y': found 3, expected 5 as in the other variables");
  has(error_text(opening([](auto& s) { s.coordinates["y"] = "t"; })), "/t] shape: found (4), expected (5)");
  has(error_text(opening([](auto& s) {
        s.variables[0].channels = {"a", "b"};
      })),
      "channels: found 1, expected 2");
  has(error_text(opening([](auto& s) { s.variables = {}; }), ExitCode::usage), "no variables");
  has(error_text(opening([](auto& s) {
                   s.variables[0].dims = {"time", "x", "x"};
                 }),
                 ExitCode::usage),
      "both 'x'");
  has(error_text(opening([](auto& s) { s.edges["q"] = EdgeKind::wall; }), ExitCode::usage), "no axis 'q'");
  // Extents that a file of a few bytes can claim, because its chunks were never written.
  const std::string large = folder.file("large.h5");
  on_root([&] {
    hdf5::File file = hdf5::File::create(large);
    file.root().create_dataset("u", {.shape = {Index{1} << 40, 4}, .chunk = {1024, 4}, .growable = true});
    file.close();
  });
  has(error_text([&] {
        GenericSourceSpec spec;
        spec.paths = {large};
        spec.dims = {"x", "y"};
        spec.variables = {{"u", {}, "", {}}};
        open_generic(spec, world());
      }),
      "/u] dimension 'x': found 1099511627776 indices");
}

}  // namespace
}  // namespace tessera
