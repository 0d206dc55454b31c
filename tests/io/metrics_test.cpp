// Every metric on cut grids against the formulae written out over the whole field.
#include "io/metrics/error_meter.hpp"

#include <cmath>
#include <complex>
#include <numbers>

#include "tests/io/io_test_support.hpp"

namespace tessera {
namespace {

using testing::error_text;
using testing::has;
using testing::world;

constexpr double kEps = 1e-7;

std::vector<Metric> all_metrics() {
  const std::vector<std::string> names{"all"};
  return parse_metrics(names);
}

// (grid..., channels)
double truth_at(Index sample, Index lead, Index cell, Index channel) {
  const auto x = static_cast<double>(cell);
  return 3.0 * static_cast<double>(channel) +
         std::sin(0.7 * x + static_cast<double>(sample + 5 * lead)) * (1.0 + 0.1 * x);
}
double prediction_at(Index sample, Index lead, Index cell, Index channel) {
  const auto x = static_cast<double>(cell);
  return truth_at(sample, lead, cell, channel) * 0.9 +
         0.3 * std::cos(1.9 * x * static_cast<double>(lead + 1)) + 0.05 * static_cast<double>(channel);
}

struct Whole {
  Shape grid;
  std::vector<double> truth, prediction, difference;
};

Whole whole_field(const Shape& grid, Index sample, Index lead, Index channel) {
  Whole w{grid, {}, {}, {}};
  for (Index cell = 0; cell < count(grid); ++cell) {
    w.truth.push_back(truth_at(sample, lead, cell, channel));
    w.prediction.push_back(prediction_at(sample, lead, cell, channel));
    w.difference.push_back(w.prediction.back() - w.truth.back());
  }
  return w;
}

Shape index_of(Index cell, const Shape& grid) {
  Shape index = Shape::filled(grid.size(), 0);
  for (int d = grid.size() - 1; d >= 0; --d) {
    index[d] = cell % grid[d];
    cell /= grid[d];
  }
  return index;
}

template <typename F>
double mean_of(const std::vector<double>& values, const F& f) {
  double sum = 0;
  for (const double v : values) sum += f(v);
  return sum / static_cast<double>(values.size());
}
double square(double v) {
  return v * v;
}
double mean(const std::vector<double>& values) {
  return mean_of(values, [](double v) { return v; });
}
double covariance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  const double mean_a = mean(a), mean_b = mean(b);
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  return sum / static_cast<double>(a.size() - 1);
}

// |F d|^2 of every mode by the definition.
std::vector<double> power_of(const Whole& w) {
  std::vector<double> power;
  const Index n = count(w.grid);
  for (Index mode = 0; mode < n; ++mode) {
    const Shape k = index_of(mode, w.grid);
    std::complex<double> sum = 0;
    for (Index cell = 0; cell < n; ++cell) {
      const Shape x = index_of(cell, w.grid);
      double phase = 0;
      for (int d = 0; d < k.size(); ++d) {
        phase -= 2 * std::numbers::pi * static_cast<double>(k[d] * x[d]) / static_cast<double>(w.grid[d]);
      }
      sum += w.difference[static_cast<std::size_t>(cell)] * std::polar(1.0, phase);
    }
    power.push_back(std::norm(sum));
  }
  return power;
}

double bin(const Whole& w, const std::vector<double>& power, int which) {
  const auto longest = static_cast<double>(*std::max_element(w.grid.begin(), w.grid.end()));
  const double a = std::log(2 * std::numbers::pi / longest);
  const double b = std::log(std::numbers::pi * std::sqrt(static_cast<double>(w.grid.size())));
  const double lo = which == 0 ? -1 : std::exp(a + (b - a) * which / 3);
  const double hi = which == 2 ? 1e9 : std::exp(a + (b - a) * (which + 1) / 3);
  double sum = 0;
  for (Index mode = 0; mode < count(w.grid); ++mode) {
    const Shape k = index_of(mode, w.grid);
    double length = 0;
    for (int d = 0; d < k.size(); ++d) {
      const Index n = w.grid[d], frequency = 2 * k[d] <= n ? k[d] : k[d] - n;
      length += square(2 * std::numbers::pi * static_cast<double>(frequency) / static_cast<double>(n));
    }
    const double edge = std::sqrt(length) * (1 + 1e-12);
    if (edge >= lo && edge < hi) sum += power[static_cast<std::size_t>(mode)];
  }
  return sum / square(static_cast<double>(count(w.grid)));
}

std::vector<double> shells(const Whole& w, const std::vector<double>& power) {
  std::vector<double> sums(static_cast<std::size_t>(*std::min_element(w.grid.begin(), w.grid.end()) / 2));
  for (Index mode = 0; mode < count(w.grid); ++mode) {
    const Shape k = index_of(mode, w.grid);
    double length = 0;
    bool low = true;
    for (int d = 0; d < k.size(); ++d) {
      length += square(static_cast<double>(k[d]));
      low = low && k[d] < w.grid[d] / 2;
    }
    const auto shell = static_cast<std::size_t>(std::floor(std::sqrt(length)));
    if (low && shell < sums.size()) sums[shell] += power[static_cast<std::size_t>(mode)];
  }
  return sums;
}

double on_boundary(const Whole& w) {
  double sum = 0, points = 0;
  for (Index cell = 0; cell < count(w.grid); ++cell) {
    const Shape x = index_of(cell, w.grid);
    bool edge = false;
    for (int d = 0; d < x.size(); ++d) edge = edge || x[d] == 0 || x[d] == w.grid[d] - 1;
    if (!edge) continue;
    sum += square(w.difference[static_cast<std::size_t>(cell)]);
    ++points;
  }
  return std::sqrt(sum / points);
}

/// A metric of one sample; those pooled over samples come separately.
double of_sample(Metric metric, const Whole& w) {
  const double mse = mean_of(w.difference, square), y2 = mean_of(w.truth, square);
  const double variance = covariance(w.truth, w.truth);
  switch (metric) {
    case Metric::mse:
      return mse;
    case Metric::rmse:
    case Metric::pde_rmse:
      return std::sqrt(mse);
    case Metric::mae:
      return mean_of(w.difference, [](double v) { return std::abs(v); });
    case Metric::linf: {
      double largest = 0;
      for (const double v : w.difference) largest = std::max(largest, std::abs(v));
      return largest;
    }
    case Metric::nmse:
      return mse / (y2 + kEps);
    case Metric::nrmse:
      return std::sqrt(mse / (y2 + kEps));
    case Metric::vmse:
      return mse / (variance + kEps);
    case Metric::vrmse:
      return std::sqrt(mse / (variance + kEps));
    case Metric::pearson:
      return covariance(w.truth, w.prediction) /
             (std::sqrt(variance * covariance(w.prediction, w.prediction)) + kEps);
    case Metric::pde_nrmse:
      return std::sqrt(mse / y2);
    case Metric::brmse:
      return on_boundary(w);
    default:
      return bin(w, power_of(w), static_cast<int>(metric) - static_cast<int>(Metric::spectral_low));
  }
}

double pooled(Metric metric, const std::vector<Whole>& samples) {
  const auto n = static_cast<double>(samples.size());
  const auto points = static_cast<double>(count(samples[0].grid));
  double sum = 0;
  std::vector<double> energy;
  for (const Whole& w : samples) {
    if (metric == Metric::pooled_rmse) sum += mean_of(w.difference, square);
    if (metric == Metric::crmse) sum += square(mean(w.difference) * points);
    const std::vector<double> mine = shells(w, power_of(w));
    energy.resize(mine.size());
    for (std::size_t k = 0; k < mine.size(); ++k) energy[k] += mine[k];
  }
  if (metric == Metric::pooled_rmse) return std::sqrt(sum / n);
  if (metric == Metric::crmse) return std::sqrt(sum / n) / points;
  const std::size_t lo = metric == Metric::frmse_low ? 0 : metric == Metric::frmse_mid ? 4 : 12;
  const std::size_t hi = std::min<std::size_t>(energy.size(), metric == Metric::frmse_low   ? 4
                                                              : metric == Metric::frmse_mid ? 12
                                                                                            : 99);
  for (std::size_t k = lo; k < hi; ++k) sum += std::sqrt(energy[k] / n) / points;
  return lo < hi ? sum / static_cast<double>(hi - lo) : NAN;
}

bool is_pooled(Metric m) {
  return m == Metric::pooled_rmse || m == Metric::crmse || m >= Metric::frmse_low;
}

void fill(std::vector<double>& values, const Layout& layout, Index sample, Index lead, Index channels,
          double (*value)(Index, Index, Index, Index)) {
  values.clear();
  for (Index cell = 0; cell < count(layout.shape()); ++cell) {
    const Shape x = index_of(cell, layout.shape());
    bool mine = true;
    for (int d = 0; d < x.size(); ++d) mine = mine && layout.local_box()[d].contains(x[d]);
    for (Index c = 0; mine && c < channels; ++c) values.push_back(value(sample, lead, cell, c));
  }
}

void check(const Layout& layout) {
  SCOPED_TRACE(to_string(layout));
  constexpr Index kChannels = 2, kSamples = 2, kLeads = 2;
  ErrorMeter meter(layout, kChannels, all_metrics());
  std::vector<double> truth, prediction;
  for (Index sample = 0; sample < kSamples; ++sample) {
    for (Index lead = 0; lead < kLeads; ++lead) {
      fill(truth, layout, sample, lead, kChannels, truth_at);
      fill(prediction, layout, sample, lead, kChannels, prediction_at);
      meter.add(lead, truth.data(), prediction.data());
    }
  }
  for (Index c = 0; c < kChannels; ++c) {
    for (const Metric metric : meter.metrics()) {
      double over_leads = 0;
      for (Index lead = 0; lead < kLeads; ++lead) {
        std::vector<Whole> samples;
        for (Index s = 0; s < kSamples; ++s) samples.push_back(whole_field(layout.shape(), s, lead, c));
        double expected = 0;
        for (const Whole& w : samples) expected += is_pooled(metric) ? 0 : of_sample(metric, w) / kSamples;
        if (is_pooled(metric)) expected = pooled(metric, samples);
        const double found = meter.value(metric, c, lead);
        over_leads += found / kLeads;
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(found)) << info(metric).name;
        } else {
          EXPECT_NEAR(found, expected, 1e-12 * (1 + std::abs(expected))) << info(metric).name;
        }
      }
      if (std::isnan(over_leads)) continue;
      EXPECT_NEAR(meter.mean_value(metric, c), over_leads, 1e-14 * (1 + over_leads));
    }
    EXPECT_NEAR(meter.value(Metric::spectral_low, c, 0) + meter.value(Metric::spectral_mid, c, 0) +
                    meter.value(Metric::spectral_high, c, 0),
                meter.value(Metric::mse, c, 0), 1e-12);
  }
}

Partition uneven(Index extent, int parts) {
  std::vector<double> weights(static_cast<std::size_t>(parts));
  for (int r = 0; r < parts; ++r) weights[static_cast<std::size_t>(r)] = parts >= 3 && r == 1 ? 0 : r + 1;
  return Partition::from_weights(extent, weights);
}

Layout cut(const Shape& grid, int axis) {
  const MeshAxis all{"ranks", -1};
  const Mesh mesh(world(), {&all, 1});
  return Layout(mesh, {Shard(axis)}, grid, {uneven(grid[axis], mesh.size())});
}

TEST(Metrics, AreTheirFormulae1D) {
  check(cut({27}, 0));
}

TEST(Metrics, AreTheirFormulae2D) {
  check(cut({11, 8}, 0));
  check(cut({6, 13}, 1));
  check(cut({2, 3}, 0));
}

TEST(Metrics, AreTheirFormulae3D) {
  check(cut({4, 5, 6}, 2));
}

TEST(Metrics, AreTheirFormulaeOnA2DMesh) {
  const int size = world()->size();
  const std::vector<MeshAxis> axes{{"y", size % 2 == 0 ? 2 : 1}, {"x", -1}};
  const Mesh mesh(world(), axes);
  const Shape grid{7, 9};
  check(Layout(mesh, {Shard(0), Shard(1)}, grid,
               {uneven(grid[0], mesh.axis_size(0)), uneven(grid[1], mesh.axis_size(1))}));
}

TEST(Metrics, OfAHighShell) {
  check(cut({26, 27}, 0));
}

TEST(Metrics, SayWhatTheyAreNot) {
  const std::vector<std::string> names{"rmse,vrmse", "mae"};
  EXPECT_EQ(parse_metrics(names), (std::vector{Metric::rmse, Metric::vrmse, Metric::mae}));
  const std::vector<std::string> wrong{"vrmsee"};
  has(error_text([&] { parse_metrics(wrong); }, ExitCode::usage), "nearest name 'vrmse'");
  EXPECT_EQ(unit_of(Metric::mse, "m/s"), "(m/s)^2");
  EXPECT_EQ(unit_of(Metric::vrmse, "m/s"), "");
  for (int m = 0; m < kMetrics; ++m)
    EXPECT_EQ(static_cast<int>(metric_table()[static_cast<std::size_t>(m)].metric), m);
}

TEST(Metrics, OfNanAreNan) {
  const Layout layout = cut({6, 4}, 0);
  ErrorMeter meter(layout, 1, all_metrics());
  std::vector<double> truth, prediction;
  fill(truth, layout, 0, 0, 1, truth_at);
  fill(prediction, layout, 0, 0, 1, prediction_at);
  if (layout.local_box()[0].contains(0) && !prediction.empty()) prediction[1] = NAN;
  meter.add(0, truth.data(), prediction.data());
  for (const Metric metric : meter.metrics())
    EXPECT_TRUE(std::isnan(meter.value(metric, 0, 0))) << info(metric).name;
}

}  // namespace
}  // namespace tessera
