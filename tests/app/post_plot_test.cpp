// Pictures of fields, histories and comparisons: what is drawn where, and what is refused.
#include "app/post_plot.hpp"

#include <filesystem>

#include "app/commands.hpp"
#include "app/post_compare.hpp"
#include "app/post_files.hpp"
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
  std::string truth = folder.file("truth.hdf5"), prediction = folder.file("prediction.hdf5");

  Files() {
    Forecast{}.write(truth);
    Forecast{0.5}.write(prediction);
  }
};

PlotRequest request_for(std::vector<std::string> paths) {
  PlotRequest request;
  request.paths = std::move(paths);
  return request;
}

bool coloured(plot::Color c) {
  return std::max({c.r, c.g, c.b}) - std::min({c.r, c.g, c.b}) > 40;
}

TEST(PostPlot, DrawsTruthPredictionAndError) {
  const Files files;
  PlotRequest request = request_for({files.truth, files.prediction});
  const plot::Image all = plot_fields(request);
  request.fields = {"h"};
  request.steps = {2};
  const plot::Image one = plot_fields(request);
  EXPECT_GT(one.width(), 2000);  // three panels beside each other
  EXPECT_GT(all.height(), 2 * one.height());
  request.paths.pop_back();
  const plot::Image alone = plot_fields(request);
  EXPECT_LT(alone.width(), one.width() / 2);
}

TEST(PostPlot, PutsTheAxesWhereTheyBelong) {
  // The value is the cell's number, so colours change most along y, the first axis, which goes upwards.
  const Files files;
  PlotRequest request = request_for({files.truth});
  request.fields = {"h"};
  request.steps = {0};
  const plot::Image image = plot_fields(request);
  Index left = image.width(), right = 0, top = image.height(), bottom = 0;
  for (Index y = 0; y < image.height(); ++y) {
    for (Index x = 0; x < image.width() / 2; ++x) {
      if (!coloured(image.at(x, y))) continue;
      left = std::min(left, x), right = std::max(right, x);
      top = std::min(top, y), bottom = std::max(bottom, y);
    }
  }
  ASSERT_LT(left, right);
  const plot::Color lowest = image.at(left + 2, bottom - 2), highest = image.at(left + 2, top + 2);
  EXPECT_GT(highest.g, lowest.g + 100);  // the map runs from dark violet to light yellow
}

TEST(PostPlot, DrawsLinesOfOneAxis) {
  const SharedFolder folder;
  FieldFileSpec spec;
  spec.axes = {{"x", "m", std::vector<double>(3000), {}}};
  for (std::size_t i = 0; i < 3000; ++i) spec.axes[0].coordinates[i] = static_cast<double>(i);
  spec.fields = {{"u", "m/s", 0, true}};
  const std::string path = folder.file("line.hdf5");
  on_root([&] {
    FieldWriter writer(self_communicator(), path, spec);
    const std::vector<double> values(3000, 1.5);
    writer.append(0, 0, Box{{0, 3000}}, values.data());
    writer.close();
  });
  EXPECT_GT(plot_fields(request_for({path})).width(), 600);
}

TEST(PostPlot, RefusesWhatIsNotThere) {
  const Files files;
  auto message = [&](auto change, ExitCode code = ExitCode::usage) {
    PlotRequest request = request_for({files.truth});
    change(request);
    return error_text([&] { plot_fields(request); }, code);
  };
  has(message([](auto& r) { r.trajectory = 2; }), "trajectory=2: found 2 trajectories");
  has(message([](auto& r) { r.steps = {3}; }), "step 3 (from 0): trajectory 0 has 3 steps");
  has(message([](auto& r) { r.fields = {"w"}; }), "no field 'w': found h, v_y, v_x");
  has(message([](auto& r) { r.axis = "z"; }), "no axis 'z'");
  has(message([](auto& r) { r.paths = {"/nowhere"}; }, ExitCode::input_file), "no such file");
}

TEST(PostPlot, DrawsHistoriesAndComparisons) {
  const Files files;
  const std::string history = files.folder.file("history.jsonl"), json = files.folder.file("compare.json");
  on_root([&] {
    std::string text;
    for (int i = 1; i <= 300; ++i) {
      text += fmt::format("{{\"step\":{},\"loss\":{},\"lr\":1e-3}}\n", i, 1.0 / i);
      if (i % 100 == 0) text += fmt::format("{{\"step\":{},\"valid_loss\":{}}}\n", i, 2.0 / i);
    }
    write_text_atomically(history, text + "{\"step\":301,\"lo");  // the last line of a run that was killed
    write_text_atomically(files.folder.file("bad.jsonl"), "{\"step\":1}\nhello\n");
  });
  EXPECT_GT(plot_histories(request_for({history})).width(), 600);
  PlotRequest rate = request_for({history, history});
  rate.keys = {"lr"};
  EXPECT_GT(plot_histories(rate).width(), 600);
  rate.keys = {"momentum"};
  has(error_text([&] { plot_histories(rate); }, ExitCode::usage), "no line has a number 'momentum'");
  has(error_text([&] { plot_histories(request_for({files.folder.file("bad.jsonl")})); }),
      "line 2: found 'hello'");

  const Comparison comparison =
      compare_fields({{files.truth, files.prediction}, {}, {Metric::rmse, Metric::vrmse}, 0}, world());
  on_root([&] { write_text_atomically(json, comparison_json(comparison)); });
  PlotRequest request = request_for({json});
  request.metric = "vrmse";
  const Index width = plot_comparison(request).width();
  request.fields = {"h"};
  EXPECT_GT(width, 2 * plot_comparison(request).width());
  request.metric = "vrms";
  has(error_text([&] { plot_comparison(request); }, ExitCode::usage), "nearest name 'vrmse'");
  has(error_text([&] { plot_comparison(request_for({history})); }), "post compare json=FILE");
}

TEST(PostPlot, IsACommand) {
  const Files files;
  CommandLine line;
  line.files = {files.truth, files.prediction};
  line.quiet = true;
  const std::string out = files.folder.file("pictures/fields.png");
  line.overrides = {"out=" + out, "leads=[1, 3]", "field=v"};
  EXPECT_EQ(post_plot(world(), line), 0);
  EXPECT_TRUE(std::filesystem::exists(out));
  line.files.push_back("history.jsonl");
  has(error_text([&] { post_plot(world(), line); }, ExitCode::usage), "do not go into one picture");
}

TEST(PostPlot, WritesDates) {
  EXPECT_EQ(time_text(24.0 * 366, "hour since 1980-01-14 14:00:00"), "1981-01-14");
  EXPECT_EQ(time_text(59, "days since 2000-01-01"), "2000-02-29");
  EXPECT_EQ(time_text(2.5, "s"), "t = 2.5 s");
  EXPECT_EQ(time_text(7, "days since whenever"), "t = 7 days since whenever");
}

}  // namespace
}  // namespace tessera
