#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Measures of a predicted field against the true one. N is the number of grid points, d = prediction -
/// truth, y the truth, <> the mean over space. Unless a formula says otherwise, a measure is taken over space
/// and then averaged over samples; eps = 1e-7.
enum class Metric : std::uint8_t {
  mse,            ///< <d^2>
  rmse,           ///< sqrt(<d^2>)
  pooled_rmse,    ///< root of the mean over space AND samples of d^2
  mae,            ///< <|d|>
  linf,           ///< max |d|
  nmse,           ///< <d^2> / (<y^2> + eps)
  nrmse,          ///< sqrt of nmse
  vmse,           ///< <d^2> / (s^2 + eps), s the unbiased standard deviation of y over space
  vrmse,          ///< sqrt of vmse (The Well); predicting the mean gives about 1
  pearson,        ///< cov / (s_prediction s_truth + eps), all of them unbiased
  spectral_low,   ///< part of <d^2> in the first of three logarithmic bins of |k|, 0 ... pi sqrt(dims);
  spectral_mid,   ///< edges 2 pi / n (n the longest extent) to pi sqrt(dims), the first edge 0;
  spectral_high,  ///< the three add up to mse (The Well)
  pde_rmse,       ///< sqrt(<d^2>) (PDEBench)
  pde_nrmse,      ///< sqrt(<d^2>) / sqrt(<y^2>) (PDEBench)
  crmse,          ///< sqrt(mean over samples of (sum d)^2) / N (PDEBench: what is conserved)
  brmse,          ///< sqrt(<d^2>) over the outermost points of the grid (PDEBench)
  frmse_low,      ///< mean over shells k < 4 of sqrt(mean over samples of sum |F d|^2) / N, F the transform
  frmse_mid,      ///< of d, shell k: indices i, j, ... >= 0 below half the extents with
  frmse_high,     ///< floor(sqrt(i^2 + j^2 + ...)) = k < half the shortest extent; 4 <= k < 12; 12 <= k
};

inline constexpr int kMetrics = 20;

struct MetricInfo {
  Metric metric{};
  std::string_view name;
  std::string_view meaning;  ///< one line, for tables and help
  int unit_power = 0;        ///< of the field's unit
  bool spectral = false;     ///< needs Fourier transforms
  bool higher_better = false;
};

/// All metrics in the order of the enumeration.
std::span<const MetricInfo> metric_table();
const MetricInfo& info(Metric metric);
/// "m/s", "(m/s)^2", "" : the unit of a metric of a field.
std::string unit_of(Metric metric, const std::string& field_unit);

/// Metrics from names; "all" stands for every one, and a name may be a comma-separated list. Throws
/// Error(usage) with the nearest name.
std::vector<Metric> parse_metrics(std::span<const std::string> names);

}  // namespace tessera
