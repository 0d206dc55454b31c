// Moments merged over boxes and ranks against one pass over everything; The Well's stats.yaml.
#include "io/statistics/field_statistics.hpp"

#include <cmath>
#include <numeric>

#include "io/atomic_file.hpp"
#include "io/fields/field_writer.hpp"
#include "io/fields/well_source.hpp"
#include "tests/io/io_test_support.hpp"

namespace tessera {
namespace {

using testing::error_text;
using testing::has;
using testing::on_root;
using testing::SharedFolder;
using testing::uneven_box;
using testing::world;

// A large mean and a small spread, where sums of squares lose everything.
double value_at(Index b, Index t, Index cell, int c) {
  return 1e6 * (c + 1) + std::sin(static_cast<double>(b * 100 + t * 31 + cell * 7 + c));
}

TEST(Statistics, AreThoseOfAllValues) {
  const SharedFolder folder;
  const std::string path = folder.file("data.hdf5");
  const Shape grid{5, 3};
  const Box box = uneven_box(grid);
  FieldFileSpec spec;
  spec.dataset_name = "data";
  spec.axes = {{"x", "", {0, 1, 2, 3, 4}, {}}, {"y", "", {0, 1, 2}, {}}};
  spec.fields = {{"h", "", 0, true}, {"v", "", 1, true}};
  spec.trajectories = 2;
  spec.type = DType::f64;
  {
    FieldWriter writer(world(), path, spec);
    for (Index b = 0; b < 2; ++b) {
      for (Index t = 0; t < 4; ++t) {
        std::vector<double> values;
        for (Index cell = box[0].lo * 3; cell < box[0].lo * 3 + box.volume(); ++cell) {
          for (int c = 0; c < 3; ++c) values.push_back(value_at(b, t, cell, c));
        }
        writer.append(b, static_cast<double>(t), box, values.data());
      }
    }
    writer.close();
  }
  const auto source = open_well({{path}, {}}, world());
  const auto found = compute_statistics(*source, {{0, 2}, {0, 1}, {1, 100}, box}, *world());
  ASSERT_EQ(found.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const int c = i == 0 ? 0 : 2;
    std::vector<double> values, deltas;
    for (Index b = 0; b < 2; ++b) {
      for (Index t = 1; t < 4; ++t) {
        for (Index cell = 0; cell < 15; ++cell) {
          values.push_back(value_at(b, t, cell, c));
          if (t > 1) deltas.push_back(value_at(b, t, cell, c) - value_at(b, t - 1, cell, c));
        }
      }
    }
    auto check = [](const std::vector<double>& v, double mean, double std, double rms, double tolerance) {
      const auto n = static_cast<double>(v.size());
      const double m = std::accumulate(v.begin(), v.end(), 0.0) / n;
      double m2 = 0, squares = 0;
      for (const double x : v) {
        m2 += (x - m) * (x - m);
        squares += x * x;
      }
      EXPECT_NEAR(mean, m, tolerance * std::abs(m) + 1e-12);
      EXPECT_NEAR(std, std::sqrt(m2 / n), 1e-9 * std);
      EXPECT_NEAR(rms, std::sqrt(squares / n), 1e-12 * rms);
    };
    check(values, found[i].mean, found[i].std, found[i].rms, 1e-15);
    check(deltas, found[i].mean_delta, found[i].std_delta, found[i].rms_delta, 1e-9);
    EXPECT_EQ(found[i].max, *std::max_element(values.begin(), values.end()));
    EXPECT_EQ(found[i].min, *std::min_element(values.begin(), values.end()));
  }
}

TEST(Statistics, StatsYamlSurvivesARoundTrip) {
  const SharedFolder folder;
  const std::string path = folder.file("stats.yaml");
  std::vector<Channel> channels{
      {"h", "", "h", 0, true, 0}, {"v_x", "", "v", 0, true, 1}, {"v_y", "", "v", 1, true, 1}};
  for (int i = 0; i < 4; ++i) channels.push_back({"D" + std::to_string(i), "", "D", i, true, 2});
  std::vector<ChannelStatistics> statistics(channels.size());
  for (std::size_t i = 0; i < statistics.size(); ++i)
    statistics[i] = {0.1 * static_cast<double>(i), 2, 3, 4, 5, 6, -1, 1};
  on_root([&] { write_stats_yaml(path, channels, statistics); });
  const auto found = read_stats_yaml(path, channels);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].mean, statistics[i].mean);
    EXPECT_EQ(found[i].rms_delta, 6);
    EXPECT_EQ(found[i].min, -1);
  }
  has(read_text(path), "D: [[");
  const std::vector<Channel> other{{"u", "", "hh", 0, true, 0}};
  has(error_text([&] { read_stats_yaml(path, other); }), "stats.yaml] mean: no field 'hh'; nearest name 'h'");
  const std::vector<Channel> deep{{"h", "", "h", 1, true, 0}};
  has(error_text([&] { read_stats_yaml(path, deep); }), "found 1 components");
  on_root([&] { write_text_atomically(folder.file("bad.yaml"), "mean: 3\n"); });
  has(error_text([&] { read_stats_yaml(folder.file("bad.yaml"), channels); }), "no map 'mean'");
}

}  // namespace
}  // namespace tessera
