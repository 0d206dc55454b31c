#include "io/metrics/error_meter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr double kEps = 1e-7;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLowShells = 4, kMidShells = 12;

std::vector<Index> boundary_cells(const Box& box, const Shape& grid) {
  std::vector<Index> cells;
  Shape index;
  for (const Range& r : box) index.push_back(r.lo);
  const Index total = box.volume();
  for (Index at = 0; at < total; ++at) {
    bool edge = false;
    for (int d = 0; d < grid.size(); ++d) edge = edge || index[d] == 0 || index[d] == grid[d] - 1;
    if (edge) cells.push_back(at);
    for (int d = box.size() - 1; d >= 0; --d) {
      if (++index[d] < box[d].hi) break;
      index[d] = box[d].lo;
    }
  }
  return cells;
}

double unbiased(double sum, double count) {
  return count > 1 ? sum / (count - 1) : 0;
}

/// Metrics of one sample from its moments, those that are averaged over samples.
void add_sample(std::vector<double>& sums, const PairMoments& m) {
  auto to = [&](Metric metric) -> double& { return sums[static_cast<std::size_t>(metric)]; };
  const double n = m.count();
  const double mse = m.mean_square(), truth_square = m.truth_mean_square();
  const double variance = unbiased(m.truth.m2, n);
  const double spread = std::sqrt(variance * unbiased(m.prediction.m2, n));
  to(Metric::mse) += mse;
  to(Metric::rmse) += std::sqrt(mse);
  to(Metric::mae) += m.sum_abs / n;
  to(Metric::linf) += m.largest();
  to(Metric::nmse) += mse / (truth_square + kEps);
  to(Metric::nrmse) += std::sqrt(mse / (truth_square + kEps));
  to(Metric::vmse) += mse / (variance + kEps);
  to(Metric::vrmse) += std::sqrt(mse / (variance + kEps));
  to(Metric::pearson) += unbiased(m.co, n) / (spread + kEps);
  to(Metric::pde_rmse) += std::sqrt(mse);
  to(Metric::pde_nrmse) += std::sqrt(mse) / std::sqrt(truth_square);
  to(Metric::brmse) += std::sqrt(m.edge_squares / m.edge_count);
}

/// Mean over shells [from, to) of the root of the mean over samples; NaN without such a shell.
double band(const std::vector<double>& shells, std::size_t from, std::size_t to, double samples) {
  double sum = 0;
  for (std::size_t k = from; k < std::min(to, shells.size()); ++k) sum += std::sqrt(shells[k] / samples);
  return from < shells.size() ? sum / static_cast<double>(std::min(to, shells.size()) - from) : kNan;
}

}  // namespace

ErrorMeter::ErrorMeter(const Layout& grid, Index channels, std::vector<Metric> metrics)
    : grid_(grid),
      channels_(channels),
      metrics_(std::move(metrics)),
      edge_cells_(boundary_cells(grid.local_box(), grid.shape())) {
  for (int a = 0; a < grid.mesh().axes(); ++a) {
    require(grid.placement(a).is_shard() || grid.mesh().axis_size(a) == 1, "metrics",
            "the grid is laid out as {}, expected every mesh axis to cut it", to_string(grid));
  }
  if (std::any_of(metrics_.begin(), metrics_.end(), [](Metric m) { return info(m).spectral; })) {
    spectrum_.emplace(grid);
  }
}

void ErrorMeter::add(Index lead, const double* truth, const double* prediction) {
  while (leads() <= lead) leads_.push_back({0, std::vector<Sums>(static_cast<std::size_t>(channels_))});
  Lead& at = leads_[static_cast<std::size_t>(lead)];
  std::vector<PairMoments> moments(static_cast<std::size_t>(channels_));
  add_pairs(moments, truth, prediction, grid_.local_box().volume(), edge_cells_);
  all_merge(grid_.mesh().comm(), moments);
  ++at.samples;
  for (std::size_t c = 0; c < moments.size(); ++c) {
    Sums& sums = at.channels[c];
    add_sample(sums.per_sample, moments[c]);
    sums.square += moments[c].mean_square();
    const double total = moments[c].difference.mean * moments[c].count();
    sums.total_square += total * total;
    if (spectrum_) add_spectrum(sums, truth, prediction, static_cast<Index>(c));
  }
}

void ErrorMeter::add_spectrum(Sums& sums, const double* truth, const double* prediction, Index channel) {
  const Index cells = grid_.local_box().volume();
  std::vector<double> difference(static_cast<std::size_t>(cells));
  for (Index i = 0; i < cells; ++i) {
    const Index from = i * channels_ + channel;
    difference[static_cast<std::size_t>(i)] = prediction[from] - truth[from];
  }
  const SpectralPower power = spectrum_->measure(difference.data());
  constexpr auto first = static_cast<std::size_t>(Metric::spectral_low);
  for (std::size_t b = 0; b < power.bins.size(); ++b) sums.per_sample[first + b] += power.bins[b];
  sums.shells.resize(power.shells.size(), 0.0);
  for (std::size_t k = 0; k < power.shells.size(); ++k) sums.shells[k] += power.shells[k];
}

double ErrorMeter::value(Metric metric, Index channel, Index lead) const {
  require(std::find(metrics_.begin(), metrics_.end(), metric) != metrics_.end(), "metrics",
          "{} was not asked for", info(metric).name);
  const Lead& at = leads_.at(static_cast<std::size_t>(lead));
  const Sums& sums = at.channels.at(static_cast<std::size_t>(channel));
  const auto samples = static_cast<double>(at.samples);
  const auto points = static_cast<double>(count(grid_.shape()));
  if (at.samples == 0) return kNan;
  switch (metric) {
    case Metric::pooled_rmse:
      return std::sqrt(sums.square / samples);
    case Metric::crmse:
      return std::sqrt(sums.total_square / samples) / points;
    case Metric::frmse_low:
      return band(sums.shells, 0, kLowShells, samples) / points;
    case Metric::frmse_mid:
      return band(sums.shells, kLowShells, kMidShells, samples) / points;
    case Metric::frmse_high:
      return band(sums.shells, kMidShells, sums.shells.size(), samples) / points;
    default:
      return sums.per_sample[static_cast<std::size_t>(metric)] / samples;
  }
}

double ErrorMeter::mean_value(Metric metric, Index channel) const {
  double sum = 0;
  Index used = 0;
  for (Index lead = 0; lead < leads(); ++lead) {
    if (samples(lead) == 0) continue;
    sum += value(metric, channel, lead);
    ++used;
  }
  return used > 0 ? sum / static_cast<double>(used) : kNan;
}

Index ErrorMeter::samples(Index lead) const {
  return leads_.at(static_cast<std::size_t>(lead)).samples;
}

}  // namespace tessera
