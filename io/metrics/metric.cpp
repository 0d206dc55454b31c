#include "io/metrics/metric.hpp"

#include <algorithm>
#include <array>

#include "io/hint.hpp"
#include "parallel/error.hpp"

namespace tessera {
namespace {

using enum Metric;

constexpr std::array<MetricInfo, kMetrics> kTable{{
    {mse, "mse", "mean square error", 2},
    {rmse, "rmse", "root of the mean square error over space, mean over samples", 1},
    {pooled_rmse, "pooled_rmse", "root of the mean square error over space and samples", 1},
    {mae, "mae", "mean absolute error", 1},
    {linf, "linf", "largest absolute error, mean over samples", 1},
    {nmse, "nmse", "mean square error / mean square of the truth"},
    {nrmse, "nrmse", "root of nmse, mean over samples"},
    {vmse, "vmse", "mean square error / variance of the truth over space"},
    {vrmse, "vrmse", "root of vmse, mean over samples; predicting the mean gives about 1"},
    {pearson, "pearson", "correlation with the truth over space", 0, false, true},
    {spectral_low, "spectral_low", "mean square error at low wavenumbers", 2, true},
    {spectral_mid, "spectral_mid", "mean square error at middle wavenumbers", 2, true},
    {spectral_high, "spectral_high", "mean square error at high wavenumbers", 2, true},
    {pde_rmse, "pde_rmse", "PDEBench RMSE: root per sample, then the mean", 1},
    {pde_nrmse, "pde_nrmse", "PDEBench nRMSE: root per sample / rms of the truth, then the mean"},
    {crmse, "crmse", "PDEBench cRMSE: error of the sum over space, per point", 1},
    {brmse, "brmse", "PDEBench bRMSE: root of the mean square error on the boundary", 1},
    {frmse_low, "frmse_low", "PDEBench fRMSE, k < 4", 1, true},
    {frmse_mid, "frmse_mid", "PDEBench fRMSE, 4 <= k < 12", 1, true},
    {frmse_high, "frmse_high", "PDEBench fRMSE, 12 <= k", 1, true},
}};

void append_metric(std::vector<Metric>& metrics, std::string_view name) {
  const auto at =
      std::find_if(kTable.begin(), kTable.end(), [&](const MetricInfo& m) { return m.name == name; });
  if (at == kTable.end()) {
    std::vector<std::string> names{"all"};
    for (const MetricInfo& m : kTable) names.emplace_back(m.name);
    const std::string hint = nearest_hint(name, names);
    std::string list;
    for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
    fail(ExitCode::usage, "metrics", "found '{}', expected some of {}{}", name, list, hint);
  }
  if (std::find(metrics.begin(), metrics.end(), at->metric) == metrics.end()) metrics.push_back(at->metric);
}

}  // namespace

std::span<const MetricInfo> metric_table() {
  return kTable;
}

const MetricInfo& info(Metric metric) {
  return kTable[static_cast<std::size_t>(metric)];
}

std::string unit_of(Metric metric, const std::string& field_unit) {
  const int power = info(metric).unit_power;
  if (power == 0 || field_unit.empty() || field_unit == "1") return "";
  return power == 1 ? field_unit : "(" + field_unit + ")^" + std::to_string(power);
}

std::vector<Metric> parse_metrics(std::span<const std::string> names) {
  std::vector<Metric> metrics;
  for (const std::string& entry : names) {
    for (std::size_t from = 0; from <= entry.size();) {
      const std::size_t comma = std::min(entry.find(',', from), entry.size());
      const std::string_view name = std::string_view(entry).substr(from, comma - from);
      from = comma + 1;
      if (name == "all") {
        for (const MetricInfo& m : kTable) append_metric(metrics, m.name);
      } else if (!name.empty()) {
        append_metric(metrics, name);
      }
    }
  }
  return metrics;
}

}  // namespace tessera
