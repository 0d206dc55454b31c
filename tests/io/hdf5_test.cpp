// The HDF5 wrappers: attributes as h5py writes them, hyperslabs of uneven and empty boxes, one clear message
// per fault.
#include "io/hdf5/file.hpp"

#include <cmath>
#include <fstream>

#include "tests/io/io_test_support.hpp"

namespace tessera {
namespace {

using hdf5::Element;
using hdf5::File;
using hdf5::Group;
using testing::error_text;
using testing::has;
using testing::on_root;
using testing::SharedFolder;
using testing::uneven_box;
using testing::world;

TEST(Hdf5, AttributesSurviveARoundTrip) {
  const SharedFolder folder;
  const std::string path = folder.file("attributes.h5");
  const std::string longer(200000, 'x');
  {
    File file = File::create(path, world().get());
    Group root = file.root();
    root.set_text("name", "Höhe");
    root.set_text("deck", longer);
    root.set_texts("list", std::vector<std::string>{"a", "bc"});
    root.set_texts("none", {});
    root.set_integer("steps", 42);
    root.set_number("dt", 0.1);
    root.set_numbers("numbers", std::vector<double>{1, 2.5});
    root.set_flag("yes", true);
    root.set_flags("flags", {true, false, true});
    root.set_integer("steps", 43);
    file.close();
  }
  const File file = File::open(path, world().get());
  const Group root = file.root();
  EXPECT_EQ(root.text("name"), "Höhe");
  EXPECT_EQ(root.text("deck"), longer);
  EXPECT_EQ(root.texts("list"), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(root.texts("name"), (std::vector<std::string>{"Höhe"}));
  EXPECT_EQ(root.texts("none"), std::vector<std::string>{});
  EXPECT_EQ(root.integer("steps"), 43);
  EXPECT_EQ(root.number("dt"), 0.1);
  EXPECT_EQ(root.numbers("numbers"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(root.flag("yes"), true);
  EXPECT_EQ(root.numbers("flags"), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(root.integer("absent"), std::nullopt);
  EXPECT_EQ(root.attribute_names().size(), 9u);
  has(error_text([&] { (void)root.text("dt"); }), "@dt] type: found no string, expected text");
  has(error_text([&] { (void)root.number("list"); }), "@list]");
}

// Contiguous, chunked and deflated datasets of doubles and floats, written and read box by box.
TEST(Hdf5, BoxesSurviveARoundTrip) {
  const SharedFolder folder;
  const std::string path = folder.file("boxes.h5");
  const Shape shape{7, 5, 3};
  const Box box = uneven_box(shape);
  std::vector<double> values;
  for (Index i = box[0].lo; i < box[0].hi; ++i) {
    for (Index j = 0; j < 15; ++j) values.push_back(static_cast<double>(i * 15 + j));
  }
  {
    File file = File::create(path, world().get());
    Group root = file.root();
    Group group = root.create_group("some").create_group("where");
    group.create_dataset("plain", {.element = Element::f64, .shape = shape, .chunk = {}})
        .write(box, values.data());
    group.create_dataset("chunked", {.element = Element::f64, .shape = shape, .chunk = {2, 5, 2}})
        .write(box, values.data());
    group
        .create_dataset("packed", {.element = Element::f64, .shape = shape, .chunk = {3, 2, 3}, .deflate = 4})
        .write(box, values.data());
    hdf5::Dataset grown = group.create_dataset("grown", {.element = Element::f32,
                                                         .shape = {1, 5, 3},
                                                         .chunk = {1, 5, 3},
                                                         .growable = true,
                                                         .fill_nan = true});
    grown.resize({9, 5, 3});
    const std::vector<float> single(values.begin(), values.end());
    grown.write(box, single.data());
    group.create_flags("mask", {true, false, true}, {3});
    file.close();
  }
  const File file = File::open(path, world().get());
  const Group group = file.root().group("some/where");
  for (const char* name : {"plain", "chunked", "packed", "grown"}) {
    std::vector<double> found(values.size(), -1);
    group.dataset(name).read(box, found.data());
    EXPECT_EQ(found, values) << name;
    std::vector<float> single(values.size(), -1);
    group.dataset(name).read(box, single.data(), hdf5::Transfer::independent);
    EXPECT_TRUE(std::equal(single.begin(), single.end(), values.begin())) << name;
  }
  float last = 0;
  group.dataset("grown").read({{8, 9}, {4, 5}, {2, 3}}, &last, hdf5::Transfer::independent);
  EXPECT_TRUE(std::isnan(last));
  EXPECT_EQ(group.dataset("mask").read_all<std::uint8_t>(), (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_EQ(group.members(), (std::vector<std::string>{"chunked", "grown", "mask", "packed", "plain"}));
}

TEST(Hdf5, EachFaultHasOneMessageOnAllRanks) {
  const SharedFolder folder;
  const std::string good = folder.file("good.h5"), cut = folder.file("cut.h5"), text = folder.file("text.h5"),
                    classic = folder.file("classic.nc"), empty = folder.file("empty.h5");
  on_root([&] {
    File file = File::create(good);
    Group root = file.root();
    root.create_numbers("velocity", {2, 100}, std::vector<double>(200, 1.0));
    root.create_group("t0_fields").create_numbers("height", {2}, std::vector<double>{1, 2});
    file.close();
    std::filesystem::copy(good, cut);
    std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 100);
    std::ofstream(text) << "this is no HDF5 file at all";
    std::ofstream(classic) << "CDF\x01 and so on";
    std::ofstream{empty};
  });
  auto open = [](const std::string& path) { return [path] { File::open(path, world().get()); }; };
  has(error_text(open(folder.file("absent.h5"))), "absent.h5] no such file");
  has(error_text(open(folder.path().string())), "found a folder");
  has(error_text(open(cut)), "cut.h5] the file is damaged or truncated: ");
  has(error_text(open(text)), "text.h5] not an HDF5 file");
  has(error_text(open(classic)), "nccopy -k nc4");
  has(error_text(open(empty)), "the file is empty");
  has(error_text([&] { File::create(folder.file("no/such/file.h5"), world().get()); }), "no folder");

  const File file = File::open(good, world().get());
  const Group root = file.root();
  has(error_text([&] { root.dataset("velocty"); }),
      "good.h5: /velocty] no such dataset; nearest name '/velocity'");
  has(error_text([&] { root.dataset("t0_fields"); }), "no such dataset");
  has(error_text([&] { root.group("t0_field/deep"); }), "no such group");
  has(error_text([&] {
        root.dataset("velocity").expect_shape({-1, 50});
      }),
      "good.h5: /velocity] shape: found (2, 100), expected (-1, 50)");
  has(error_text([&] { root.dataset("velocity").expect_dims(3); }),
      "dimensions: found 2 (2, 100), expected 3");
  std::vector<float> values(1000);
  has(error_text([&] {
        root.dataset("velocity").read({{0, 3}, {0, 100}}, values.data());
      }),
      "shape: found (2, 100), which does not hold [0:3, 0:100]");
  has(error_text([&] { root.dataset("velocity").read_all<float>(100); }),
      "elements: found 200, expected at most 100");
}

}  // namespace
}  // namespace tessera
