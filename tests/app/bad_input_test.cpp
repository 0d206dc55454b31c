// Input files that are missing, damaged or do not fit: one clear message, the documented exit code, nothing
// half written, on any number of ranks.
#include <cmath>
#include <limits>

#include "io/fields/field_writer.hpp"
#include "tests/app/answers.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

/// Two trajectories of 6 steps on a grid of ny x 12; one value is replaced.
void write_data(const fs::path& path, Index ny, float value = 0, Index bad_step = 3) {
  fs::create_directories(path.parent_path());
  FieldFileSpec spec;
  spec.dataset_name = "bad";
  spec.axes = {{"y", "m", std::vector<double>(static_cast<std::size_t>(ny), 0.0)},
               {"x", "m", std::vector<double>(12, 0.0)}};
  for (GridAxis& axis : spec.axes) {
    for (std::size_t i = 0; i < axis.coordinates.size(); ++i) axis.coordinates[i] = static_cast<double>(i);
  }
  spec.fields = {{"height", "m"}};
  spec.trajectories = 2;
  FieldWriter writer(self_communicator(), path.string(), spec);
  std::vector<float> values(static_cast<std::size_t>(12 * ny));
  for (Index trajectory = 0; trajectory < 2; ++trajectory) {
    for (Index step = 0; step < 6; ++step) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = std::sin(0.3F * static_cast<float>(i + static_cast<std::size_t>(step + trajectory)));
      }
      if (trajectory == 1 && step == bad_step && value != 0) values[values.size() / 2 + 3] = value;
      writer.append(trajectory, static_cast<double>(step), {{0, ny}, {0, 12}}, values.data());
    }
  }
  writer.close();
}

class Training : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    write_file(folder_ / "train.yaml", R"(data: {path: set}
model: {type: convnet, patch: 1, dim: 8, depth: 1}
train: {steps: 4}
)");
  }

  void expect_failure(const std::string& arguments, int code, const std::string& text) {
    const int files = files_below(folder_);
    EXPECT_TRUE(failed_with(tessera(folder_, "train train.yaml -d run -q " + arguments), code, text))
        << arguments;
    EXPECT_FALSE(has_partial_file(folder_ / "run"));
    EXPECT_FALSE(fs::exists(folder_ / "run/weights.safetensors"));
    fs::remove_all(folder_ / "run");
    EXPECT_EQ(files_below(folder_), files);
  }

  fs::path file(const char* split) const { return folder_ / "set/data" / split / "a.hdf5"; }

  fs::path folder_;
};

TEST_F(Training, Missing) {
  expect_failure("", 3, "set");
}

TEST_F(Training, DamagedFiles) {
  write_data(file("train"), 8);
  const auto whole = fs::file_size(file("train"));
  fs::resize_file(file("train"), whole / 2);
  expect_failure("", 3, "a.hdf5");
  write_file(file("train"), "no HDF5 at all");
  expect_failure("", 3, "a.hdf5");
  write_file(file("train"), "");
  expect_failure("", 3, "a.hdf5");
}

TEST_F(Training, WrongShapes) {
  write_data(file("train"), 8);
  write_data(file("valid"), 9);
  expect_failure("", 3, "(9, 12), expected that of the training data, (8, 12)");
  fs::remove_all(file("valid").parent_path());
  expect_failure("data.fields=[hight]", 3, "nearest name 'height'");
  const std::string as_plain =
      "data.format=hdf5 data.path=set/data/train/a.hdf5 'data.split={type: trajectories, train: [0, 1]}' "
      "'data.variables=[{dataset: t0_fields/height}]' ";
  expect_failure(as_plain + "'data.dims=[time, y, x]'", 3, "t0_fields/height");
  expect_failure(as_plain + "'data.dims=[sample, time, y, x]' 'data.split.train=[0, 9]'", 2,
                 "found end 9, the data have 2");
}

TEST_F(Training, NoNumbers) {
  write_data(file("train"), 8, std::numeric_limits<float>::quiet_NaN());
  expect_failure("", 3, "height");
  write_data(file("train"), 8, std::numeric_limits<float>::infinity());
  expect_failure("", 3, "height");
  EXPECT_TRUE(succeeded(tessera(folder_, "train train.yaml -d run -q data.bad_values.action=fill")));
}

TEST_F(Training, MeshesBatchesModels) {
  write_data(file("train"), 8);
  expect_failure("mesh.ddp=7 mesh.domain=1", 2, "7, but there are " + std::to_string(ranks()));
  expect_failure("train.batch=2", 2, "found 2, expected 1");
  expect_failure("train.stesp=2", 2, "unknown key 'train.stesp'");
  expect_failure("-r 5", 3, "no checkpoint of step 5: found none");
  expect_failure("-r elsewhere", 3, "no such folder");
  expect_failure("train.weights=none.safetensors", 3, "none.safetensors");
}

TEST_F(Training, MoreUpdatesThanCanBeCountedAreRefused) {
  write_data(file("train"), 8);
  const std::string train = "train train.yaml -d run -q train.steps=9000000000000000000";
  EXPECT_TRUE(failed_with(tessera(folder_, train), 2, "train.steps: found 9e+18 updates"));
  EXPECT_TRUE(
      failed_with(tessera(folder_, train + " train.epochs=1e300"), 2, "train.steps: found 9e+18 updates"));
  EXPECT_TRUE(failed_with(tessera(folder_, train + " train.epochs=1e15"), 2, "train.epochs: found"));
}

TEST_F(Training, DryRunWritesNothing) {
  write_data(file("train"), 8);
  const int files = files_below(folder_);
  EXPECT_TRUE(succeeded(tessera(folder_, "train train.yaml -d run -n")));
  EXPECT_EQ(files_below(folder_), files);
}

TEST_F(Training, Predictions) {
  write_data(file("train"), 8);
  write_data(file("test"), 8);
  write_file(folder_ / "predict.yaml", "predict: {run: run}\n");
  EXPECT_TRUE(failed_with(tessera(folder_, "predict predict.yaml -d out -q"), 3, "no checkpoint here"));
  ASSERT_TRUE(succeeded(tessera(folder_, "train train.yaml -d run -q -r latest")));
  EXPECT_TRUE(failed_with(tessera(folder_, "train train.yaml -d run -q -r 5"), 3,
                          "no checkpoint of step 5: found steps 4"));
  EXPECT_TRUE(succeeded(tessera(folder_, "train train.yaml -d run -q -r latest train.steps=6")));
  EXPECT_TRUE(succeeded(tessera(folder_, "predict predict.yaml -d out -q predict.steps=2")));
  EXPECT_FALSE(has_partial_file(folder_));
  EXPECT_TRUE(
      failed_with(tessera(folder_, "predict predict.yaml -d other -q predict.steps=90"), 2, "no sample"));
  write_data(file("test"), 9);
  EXPECT_TRUE(failed_with(tessera(folder_, "predict predict.yaml -d other -q"), 3,
                          "expected that of the training data"));
  EXPECT_EQ(files_below(folder_ / "other"), 0);
}

}  // namespace
}  // namespace tessera::testing
