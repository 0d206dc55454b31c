#pragma once

#include <optional>
#include <vector>

#include "io/metrics/metric.hpp"
#include "io/metrics/pair_moments.hpp"
#include "io/metrics/spectrum.hpp"
#include "parallel/layout.hpp"

namespace tessera {

/// Metrics of predictions against the truth, per channel and lead, over any number of samples whose grid is
/// cut over ranks. Nothing grows with the grid but the work space of the spectral metrics, and that with the
/// rank's own part.
class ErrorMeter {
 public:
  /// `grid`: Shard axes that cut the grid's shape, so that every point is on one rank. Collective.
  ErrorMeter(const Layout& grid, Index channels, std::vector<Metric> metrics);

  /// One sample at lead 0, 1, ...: host memory (box..., channels), this rank's box of the grid. Collective.
  void add(Index lead, const double* truth, const double* prediction);

  /// The same on every rank. NaN where there is no sample, no such shell, or NaN in the data.
  double value(Metric metric, Index channel, Index lead) const;
  /// Mean over the leads that have samples.
  double mean_value(Metric metric, Index channel) const;
  Index leads() const { return static_cast<Index>(leads_.size()); }
  Index samples(Index lead) const;
  const std::vector<Metric>& metrics() const { return metrics_; }

 private:
  /// Sums over samples for one channel and lead.
  struct Sums {
    std::vector<double> per_sample = std::vector<double>(kMetrics, 0.0);  ///< metrics that are averaged
    double square = 0;                                                    ///< of the mean square error
    double total_square = 0;                                              ///< of (sum over space of d)^2
    std::vector<double> shells;                                           ///< of |F d|^2 per shell
  };
  struct Lead {
    Index samples = 0;
    std::vector<Sums> channels;
  };

  void add_spectrum(Sums& sums, const double* truth, const double* prediction, Index channel);

  Layout grid_;
  Index channels_;
  std::vector<Metric> metrics_;
  std::vector<Index> edge_cells_;  ///< of this rank's box
  std::optional<SpectrumMeter> spectrum_;
  std::vector<Lead> leads_;
};

}  // namespace tessera
