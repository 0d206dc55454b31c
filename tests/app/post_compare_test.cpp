// Comparisons of forecasts: figures, names, tables, and files that do not fit together.
#include "app/post_compare.hpp"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "app/commands.hpp"
#include "io/atomic_file.hpp"
#include "tests/app/post_fixture.hpp"

namespace tessera {
namespace {

using testing::error_text;
using testing::Forecast;
using testing::has;
using testing::on_root;
using testing::SharedFolder;
using testing::world;

struct Files {
  SharedFolder folder;
  std::string truth, prediction, baseline;

  Files() {
    on_root([&] {
      for (const char* name : {"truth", "prediction", "persistence", "empty"}) {
        std::filesystem::create_directories(folder.path() / name);
      }
    });
    truth = folder.file("truth/part.hdf5");
    prediction = folder.file("prediction/part.hdf5");
    baseline = folder.file("persistence/part.hdf5");
    Forecast{}.write(truth);
    Forecast{0.5}.write(prediction);
    Forecast{-2}.write(baseline);
  }
};

TEST(PostCompare, MeasuresEveryFieldAndLeadTime) {
  const Files files;
  const std::vector<std::string> all{"all"};
  const Comparison c = compare_fields({{files.folder.path().string()}, {}, parse_metrics(all), 0}, world());
  ASSERT_EQ(c.columns.size(), 2u);
  EXPECT_EQ(c.columns[0].name, "prediction");
  EXPECT_EQ(c.columns[1].name, "persistence");
  ASSERT_EQ(c.fields.size(), 3u);
  EXPECT_EQ(c.fields[2].name, "v_x");
  EXPECT_EQ(c.fields[2].unit, "m/s");
  ASSERT_EQ(c.leads, 3);
  EXPECT_EQ(c.step_length, 1);
  EXPECT_EQ(c.samples, (std::vector<Index>{2, 2, 2}));
  for (std::size_t f = 0; f < 3; ++f) {
    for (Index k = 0; k < 3; ++k) {
      const double error = 0.5 * static_cast<double>(k + 1) * static_cast<double>(f + 1);
      for (const Metric m : {Metric::rmse, Metric::pooled_rmse, Metric::mae, Metric::linf, Metric::crmse}) {
        EXPECT_NEAR(c.value(c.columns[0], static_cast<std::size_t>(m), f, k), error, 1e-5) << info(m).name;
        EXPECT_NEAR(c.value(c.columns[1], static_cast<std::size_t>(m), f, k), 4 * error, 1e-5)
            << info(m).name;
      }
    }
    const auto rmse = static_cast<std::size_t>(Metric::rmse);
    EXPECT_NEAR(c.mean(c.columns[0], rmse, f), static_cast<double>(f + 1), 1e-5);
  }
}

TEST(PostCompare, WritesTablesAndJson) {
  const Files files;
  CompareRequest request{{files.truth, files.prediction}, {"v"}, {Metric::mse, Metric::vrmse}, 1};
  const Comparison c = compare_fields(request, world());
  const std::string table = comparison_table(c);
  has(table, "y 5 x x 4");
  has(table, "2 trajectories of 3 steps");
  has(table, "field  unit     step");
  has(table, "v_y    (m/s)^2     1           4.0000");
  has(table, "v_x    (m/s)^2  mean           14.625");
  const auto json = nlohmann::json::parse(comparison_json(c));
  EXPECT_EQ(json["metrics"]["mse"]["values"]["v_y"]["prediction/part"]["by_step"].size(), 2u);
  EXPECT_NEAR(json["metrics"]["mse"]["values"]["v_x"]["prediction/part"]["mean"].get<double>(), 14.625, 1e-4);
  EXPECT_EQ(json["metrics"]["mse"]["unit"]["v_y"], "(m/s)^2");

  CommandLine line;
  line.files = {files.truth, files.prediction};
  line.quiet = true;
  const std::string path = files.folder.file("new/compare.json");
  line.overrides = {"json=" + path, "metrics=[rmse]"};
  EXPECT_EQ(post_compare(world(), line), 0);
  EXPECT_TRUE(nlohmann::json::parse(read_text(path))["metrics"].contains("rmse"));
}

TEST(PostCompare, TellsNamesApart) {
  const Files files;
  const Comparison c =
      compare_fields({{files.truth, files.prediction, files.baseline}, {"h"}, {Metric::rmse}, 0}, world());
  EXPECT_EQ(c.columns[0].name, "prediction/part");
  EXPECT_EQ(c.columns[1].name, "persistence/part");
}

TEST(PostCompare, RefusesWhatDoesNotFit) {
  const Files files;
  const std::string other = files.folder.file("other.hdf5");
  auto compare = [&](const std::vector<std::string>& fields) {
    compare_fields({{files.truth, other}, fields, {Metric::rmse}, 0}, world());
  };
  auto message = [&](const Forecast& forecast) {
    forecast.write(other);
    return error_text([&] { compare({}); });
  };
  Forecast f;
  f.grid = {5, 3};
  has(message(f), "found a grid of y 5 x x 3, expected y 5 x x 4 as in");
  f = {};
  f.trajectories = 1;
  has(message(f), "found 1 trajectories, expected 2");
  f = {};
  f.steps = 2;
  has(message(f), "trajectory 0: found 2 steps, expected 3");
  f = {};
  f.first_time = 101;
  has(message(f), "step 0: found the time 101, expected 100");
  f = {};
  f.fields = {{"height", "m", 0, true}};
  has(message(f), "no field 'h': found height");
  f = {};
  f.steps = 4;  // a forecast beyond the known truth is compared where the truth is known
  f.write(other);
  compare({});
  has(error_text([&] { compare({"hh"}); }, ExitCode::usage),
      "no field 'hh': found h, v_y, v_x; nearest name 'h'");
  has(error_text(
          [&] {
            compare_fields({{files.truth}, {}, {Metric::rmse}, 0}, world());
          },
          ExitCode::usage),
      "found 1 set of fields, expected TRUTH PREDICTION");
  has(error_text([&] { compare_fields({{files.truth, other}, {}, {Metric::rmse}, 9}, world()); }), "skip=9");
}

}  // namespace
}  // namespace tessera
