// Checkpoints: saved on one partition, loaded on others; damage is found and passed over; what is kept and
// what goes.
#include "io/checkpoint/checkpoint.hpp"

#include <fstream>
#include <numeric>

#include "io/box_rows.hpp"
#include "io/checkpoint/checksum.hpp"
#include "tests/io/io_test_support.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::error_text;
using testing::has;
using testing::on_root;
using testing::SharedFolder;
using testing::uneven_box;
using testing::world;

// The element at each index of `box` is its linear index in `shape`.
template <typename T>
std::vector<T> linear_values(const Shape& shape, const Box& box) {
  std::vector<T> values(static_cast<std::size_t>(box.volume()));
  for_each_run(box, Box::whole(shape), box, [&](Index from, Index to, Index n) {
    for (Index i = 0; i < n; ++i) values[static_cast<std::size_t>(to + i)] = static_cast<T>(from + i);
  });
  return values;
}

const Shape kField{9, 4, 3};
const Shape kWeight{5, 7};

// A field cut unevenly, a replicated weight, a replicated scalar and an array that nobody has anything of.
fs::path save(const fs::path& root, Index step) {
  const Box box = uneven_box(kField);
  const auto field = linear_values<double>(kField, box);
  const auto weight = linear_values<float>(kWeight, Box::whole(kWeight));
  const std::int64_t cursor = 77;
  const std::vector<SavedArray> arrays{
      {"field", DType::f64, kField, box, field.data()},
      {"net.weight", DType::f32, kWeight, Box::whole(kWeight), weight.data()},
      {"cursor", DType::i64, {}, {}, &cursor},
      {"nothing", DType::f32, {0, 3}, {{0, 0}, {0, 3}}, nullptr}};
  return save_checkpoint(*world(), root, step, R"({"epoch": 3, "lr": 0.1})", arrays);
}

TEST(Checkpoint, LoadsOnAnyPartition) {
  const SharedFolder folder;
  const fs::path saved = save(folder.path() / "checkpoints", 100);
  EXPECT_EQ(saved.filename(), "step_00000100");
  const Checkpoint checkpoint(saved);
  EXPECT_EQ(checkpoint.step(), 100);
  EXPECT_EQ(checkpoint.state(), R"({"epoch":3,"lr":0.1})");
  checkpoint.verify(*world());
  EXPECT_EQ(checkpoint.arrays().at("net.weight").chunks.size(), 1u);  // written once
  // Another cut: along the second dimension, and a box in the middle.
  Box other = Box::whole(kField);
  other[1] = Partition::even(4, world()->size()).range(world()->rank());
  for (const Box& box :
       {other, Box{{2, 8}, {1, 3}, {1, 2}}, Box::whole(kField), Box{{3, 3}, {0, 4}, {0, 3}}}) {
    std::vector<double> found(static_cast<std::size_t>(box.volume()), -1);
    checkpoint.read("field", DType::f64, kField, box, found.data());
    EXPECT_EQ(found, linear_values<double>(kField, box)) << to_string(box);
  }
  std::vector<float> weight(35);
  checkpoint.read("net.weight", DType::f32, kWeight, Box::whole(kWeight), weight.data());
  EXPECT_EQ(weight, linear_values<float>(kWeight, Box::whole(kWeight)));
  std::int64_t cursor = 0;
  checkpoint.read("cursor", DType::i64, {}, {}, &cursor);
  EXPECT_EQ(cursor, 77);
}

// More than one buffer's worth of bytes, so that runs straddle refills.
TEST(Checkpoint, LargeArraysStream) {
  const SharedFolder folder;
  const Shape shape{333, 1021};
  const Box box = uneven_box(shape);
  const auto values = linear_values<double>(shape, box);
  const fs::path saved =
      save_checkpoint(*world(), folder.path(), 1, "{}",
                      std::vector<SavedArray>{{"a", DType::f64, shape, box, values.data()}});
  Box other = Box::whole(shape);
  other[1] = Partition::even(1021, world()->size()).range(world()->rank());
  std::vector<double> found(static_cast<std::size_t>(other.volume()));
  Checkpoint(saved).read("a", DType::f64, shape, other, found.data());
  EXPECT_EQ(found, linear_values<double>(shape, other));
}

TEST(Checkpoint, WrongRequestsNameBoth) {
  const SharedFolder folder;
  const Checkpoint checkpoint(save(folder.path(), 1));
  std::vector<float> out(35);
  has(error_text(
          [&] { checkpoint.read("net.weigth", DType::f32, kWeight, Box::whole(kWeight), out.data()); }),
      "no array 'net.weigth'; nearest name 'net.weight'");
  has(error_text([&] {
        checkpoint.read("net.weight", DType::f32, {5, 8}, Box::whole({5, 8}), out.data());
      }),
      "array 'net.weight': found f32 (5, 7), expected f32 (5, 8)");
  has(error_text(
          [&] { checkpoint.read("net.weight", DType::f64, kWeight, Box::whole(kWeight), out.data()); }),
      "found f32 (5, 7), expected f64 (5, 7)");
  has(error_text([&] { Checkpoint(folder.path() / "step_00000002"); }), "no such checkpoint folder");
  const float one = 1;
  const std::vector<SavedArray> hole{{"hole", DType::f32, {2}, {{0, 1}}, &one}};
  has(error_text([&] { save_checkpoint(*world(), folder.path(), 9, "{}", hole); }, ExitCode::internal),
      "array 'hole': the boxes hold 1 elements of 2");
  world()->barrier();  // rank 0 cleans up
  EXPECT_FALSE(fs::exists(folder.path() / "step_00000009"));
  EXPECT_FALSE(fs::exists(folder.path() / "step_00000009.partial"));
}

void flip_byte(const fs::path& file, std::streamoff at) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(at);
  const auto byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(at);
  stream.put(byte);
}

fs::path first_shard(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".bin") return entry.path();
  }
  return {};
}

TEST(Checkpoint, LatestSkipsDamagedOnes) {
  const SharedFolder folder;
  const fs::path root = folder.path() / "checkpoints";
  std::vector<std::string> warnings;
  auto latest = [&] {
    world()->barrier();
    return latest_checkpoint(*world(), root, [&](const std::string& text) { warnings.push_back(text); });
  };
  EXPECT_EQ(latest(), std::nullopt);
  for (const Index step : {10, 20, 30, 40}) save(root, step);
  save(root, 40);  // replaces
  EXPECT_EQ(latest(), root / "step_00000040");
  EXPECT_TRUE(warnings.empty());
  on_root([&] {
    flip_byte(first_shard(root / "step_00000040"), 5);
    fs::resize_file(first_shard(root / "step_00000030"), 3);
    flip_byte(root / "step_00000020" / "manifest.json", 60);
    fs::create_directory(root / "step_00000050");
    fs::create_directory(root / "step_00000060.partial");
  });
  EXPECT_EQ(latest(), root / "step_00000010");
  if (world()->rank() == 0) {
    ASSERT_EQ(warnings.size(), 4u);
    has(warnings[0], "step_00000050/manifest.json] cannot read");
    has(warnings[1], "damaged: array ");
    has(warnings[2], "size: found 3 bytes, expected");
    has(warnings[3], "step_00000020/manifest.json] damaged");
  }
}

TEST(Checkpoint, KeepsTheLastAndEveryMth) {
  const SharedFolder folder;
  const fs::path root = folder.path();
  for (const Index step : {10, 20, 25, 30, 35, 40}) save(root, step);
  on_root([&] {
    flip_byte(root / "step_00000040" / "manifest.json", 60);
    fs::create_directory(root / "step_00000045.partial");
  });
  prune_checkpoints(*world(), root, {.last = 2, .every = 20});
  std::string names;
  for (const fs::path& path : list_checkpoints(root)) names += path.filename().string().substr(11) + " ";
  EXPECT_EQ(names, "40 35 30 20 ");
  EXPECT_FALSE(fs::exists(root / "step_00000045.partial"));
  world()->barrier();
  prune_checkpoints(*world(), root, {.last = 0, .every = 0});
  EXPECT_TRUE(fs::exists(root / "step_00000035"));
  EXPECT_EQ(list_checkpoints(root).size(), 2u);
}

TEST(Checksum, DoesNotDependOnTheCutsAndSeesEveryByte) {
  std::string bytes(1000, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  const std::uint64_t whole = checksum_of(bytes);
  for (const std::size_t cut : {1u, 31u, 32u, 33u, 500u, 999u}) {
    Checksum sum;
    sum.update(bytes.data(), cut);
    sum.update(bytes.data() + cut, bytes.size() - cut);
    EXPECT_EQ(sum.value(), whole);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 128);
    EXPECT_NE(checksum_of(changed), whole);
  }
  EXPECT_NE(checksum_of(std::string(32, '\0')), checksum_of(std::string(33, '\0')));
}

}  // namespace
}  // namespace tessera
