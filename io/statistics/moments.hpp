#pragma once

#include <limits>
#include <span>
#include <vector>

#include "parallel/communicator.hpp"

namespace tessera {

/// Count, mean and sum of squared deviations of a stream of numbers; two of them merge without loss (Chan,
/// Golub and LeVeque).
struct Moments {
  double count = 0;
  double mean = 0;
  double m2 = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void merge(const Moments& other);
  /// Standard deviation of the population: sqrt(M2 / n).
  double deviation() const;
  /// sqrt(mean of squares).
  double rms() const;
};

/// Adds `cells` values of each channel; host memory (cells, channels), moments.size() channels.
void add_cells(std::span<Moments> moments, const float* values, Index cells);
void add_cells(std::span<Moments> moments, const double* values, Index cells);

/// Merges the ranks' moments in rank order, so all get the same bits. Collective.
void all_merge(Communicator& comm, std::span<Moments> moments);

}  // namespace tessera
