// safetensors: written from boxes by several ranks, read with conversion; damaged headers.
#include "io/safetensors/safetensors.hpp"

#include <cmath>
#include <cstring>

#include "tests/io/io_test_support.hpp"

namespace tessera {
namespace {

using testing::error_text;
using testing::has;
using testing::on_root;
using testing::SharedFolder;
using testing::uneven_box;
using testing::world;

TEST(Safetensors, SurvivesARoundTrip) {
  const SharedFolder folder;
  const std::string path = folder.file("model.safetensors");
  const Shape shape{7, 3};
  const Box box = uneven_box(shape);
  std::vector<float> part;
  for (Index i = box[0].lo * 3; i < box[0].lo * 3 + box.volume(); ++i)
    part.push_back(0.5f * static_cast<float>(i));
  {
    SafetensorsWriter writer(
        world(), path, {{"steps", DType::u8, {3}}, {"a.weight", DType::f32, shape}, {"n", DType::i64, {}}},
        {{"model", "vit"}});
    writer.write("a.weight", box, part.data());
    const std::int64_t n = std::int64_t{1} << 60;
    const std::vector<std::uint8_t> steps{1, 2, 255};
    if (world()->rank() == 0) writer.write("n", {}, &n);
    if (world()->rank() == world()->size() - 1) writer.write("steps", {{0, 3}}, steps.data());
    EXPECT_FALSE(std::filesystem::exists(path));
    writer.close();
  }
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("model"), "vit");
  EXPECT_EQ(file.entries().size(), 3u);
  std::vector<double> all(21);
  file.read("a.weight", shape, Box::whole(shape), DType::f64, all.data());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], 0.5 * static_cast<double>(i));
  std::vector<float> two(2);
  file.read("a.weight", shape, {{4, 6}, {1, 2}}, DType::f32, two.data());
  EXPECT_EQ(two, (std::vector<float>{6.5, 8}));
  std::int64_t n = 0;
  file.read("n", {}, {}, DType::i64, &n);
  EXPECT_EQ(n, std::int64_t{1} << 60);
  std::vector<float> steps(3);
  file.read("steps", {3}, {{0, 3}}, DType::f32, steps.data());
  EXPECT_EQ(steps, (std::vector<float>{1, 2, 255}));
  has(error_text([&] { file.read("a.weigh", shape, Box::whole(shape), DType::f32, all.data()); }),
      "no tensor 'a.weigh'; nearest name 'a.weight'");
  has(error_text([&] {
        file.read("a.weight", {3, 7}, Box::whole({3, 7}), DType::f32, all.data());
      }),
      "found shape (7, 3), expected (3, 7)");
}

void write_raw(const std::string& path, const std::string& header, const std::string& data) {
  std::ofstream stream(path, std::ios::binary);
  const std::uint64_t bytes = header.size();
  stream.write(reinterpret_cast<const char*>(&bytes), 8);
  stream << header << data;
}

TEST(Safetensors, ReadsHalvesAndBrainFloats) {
  const SharedFolder folder;
  const std::string path = folder.file("half.safetensors");
  const std::vector<std::uint16_t> bits{0x3c00, 0xc000, 0x0001, 0x7bff, 0xfc00, 0x3555,   // halves
                                        0x3f80, 0xc000, 0x4049, 0x7f80, 0x0000, 0x3eab};  // brain floats
  on_root([&] {
    std::string data(24, '\0');
    std::memcpy(data.data(), bits.data(), 24);
    write_raw(
        path,
        R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[12,24]}})",
        data);
  });
  const SafetensorsFile file(path);
  std::vector<float> values(6);
  file.read("h", {6}, {{0, 6}}, DType::f32, values.data());
  EXPECT_EQ(values, (std::vector<float>{1, -2, std::ldexp(1.0f, -24), 65504, -INFINITY, 1365.0f / 4096}));
  file.read("b", {2, 3}, Box::whole({2, 3}), DType::f32, values.data());
  EXPECT_EQ(values, (std::vector<float>{1, -2, 3.140625f, INFINITY, 0, 0.333984375f}));
  std::vector<std::uint16_t> brain(6);
  file.read("b", {2, 3}, Box::whole({2, 3}), DType::bf16, brain.data());
  EXPECT_TRUE(std::equal(brain.begin(), brain.end(), bits.begin() + 6));
  file.read("h", {6}, {{0, 6}}, DType::bf16, brain.data());
  EXPECT_EQ(brain[0], 0x3f80);
  EXPECT_EQ(brain[5], 0x3eab);  // 0.33325 rounds up to the nearest brain float
}

TEST(Safetensors, DamagedHeadersAreRefused) {
  const SharedFolder folder;
  const std::string path = folder.file("bad.safetensors");
  auto message = [&](const std::string& header, const std::string& data) {
    on_root([&] { write_raw(path, header, data); });
    const std::string text = error_text([&] { SafetensorsFile{path}; });
    world()->barrier();
    return text;
  };
  const std::string four(4, 'x');
  has(message("no json", four), "the header is no JSON");
  has(message(R"({"a":{"dtype":"F9","shape":[1],"data_offsets":[0,4]}})", four),
      "element type 'F9' is not known");
  has(message(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", four),
      "does not fit into 4 bytes");
  has(message(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", four),
      "offsets [1, 5] in 4 bytes");
  has(message(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}})", four), "expected 4 bytes");
  has(message(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", four),
      "does not fit");
  has(message(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four), "does not fit");
  has(message(R"({"a":{"dtype":"F32","shape":[1]}})", four), "damaged header");
  has(message(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
          four),
      "tensors overlap");
  on_root([&] { std::ofstream(path, std::ios::binary) << std::string(12, '\x7f'); });
  has(error_text([&] { SafetensorsFile{path}; }), "not a safetensors file");
  world()->barrier();
  on_root([&] { std::ofstream(path, std::ios::binary) << "abc"; });
  has(error_text([&] { SafetensorsFile{path}; }), "not a safetensors file");
  has(error_text([&] { SafetensorsFile{folder.file("none")}; }), "cannot read");
  world()->barrier();
}

}  // namespace
}  // namespace tessera
