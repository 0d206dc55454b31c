#include "io/metrics/pair_moments.hpp"

#include <algorithm>
#include <cmath>

namespace tessera {

void PairMoments::merge(const PairMoments& other) {
  if (other.count() > 0) {
    const double weight = count() * other.count() / (count() + other.count());
    co += other.co + (other.truth.mean - truth.mean) * (other.prediction.mean - prediction.mean) * weight;
  }
  truth.merge(other.truth);
  prediction.merge(other.prediction);
  difference.merge(other.difference);
  sum_abs += other.sum_abs;
  edge_count += other.edge_count;
  edge_squares += other.edge_squares;
}

double PairMoments::mean_square() const {
  return difference.m2 / count() + difference.mean * difference.mean;
}

double PairMoments::truth_mean_square() const {
  return truth.m2 / count() + truth.mean * truth.mean;
}

double PairMoments::largest() const {
  // NaN passes through sums but not through minimum and maximum.
  return std::isnan(sum_abs) ? sum_abs : std::max(std::abs(difference.min), std::abs(difference.max));
}

void add_pairs(std::span<PairMoments> moments, const double* truth, const double* prediction, Index cells,
               std::span<const Index> edge_cells) {
  if (cells == 0) return;
  const auto channels = static_cast<Index>(moments.size());
  std::vector<double> y(static_cast<std::size_t>(cells)), p(y.size()), d(y.size());
  for (Index c = 0; c < channels; ++c) {
    PairMoments batch;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const Index at = static_cast<Index>(i) * channels + c;
      y[i] = truth[at];
      p[i] = prediction[at];
      d[i] = p[i] - y[i];
      batch.sum_abs += std::abs(d[i]);
    }
    add_cells({&batch.truth, 1}, y.data(), cells);
    add_cells({&batch.prediction, 1}, p.data(), cells);
    add_cells({&batch.difference, 1}, d.data(), cells);
    for (std::size_t i = 0; i < y.size(); ++i) {
      batch.co += (y[i] - batch.truth.mean) * (p[i] - batch.prediction.mean);
    }
    for (const Index i : edge_cells) {
      const double e = d[static_cast<std::size_t>(i)];
      batch.edge_squares += e * e;
    }
    batch.edge_count = static_cast<double>(edge_cells.size());
    moments[static_cast<std::size_t>(c)].merge(batch);
  }
}

void all_merge(Communicator& comm, std::span<PairMoments> moments) {
  static_assert(sizeof(PairMoments) % sizeof(double) == 0);
  const auto numbers = static_cast<Index>(moments.size_bytes() / sizeof(double));
  std::vector<PairMoments> all(moments.size() * static_cast<std::size_t>(comm.size()));
  const std::vector<Index> counts(static_cast<std::size_t>(comm.size()), numbers);
  comm.all_gather(moments.data(), all.data(), counts, DType::f64);
  for (std::size_t c = 0; c < moments.size(); ++c) {
    PairMoments merged;
    for (std::size_t at = c; at < all.size(); at += moments.size()) merged.merge(all[at]);
    moments[c] = merged;
  }
}

}  // namespace tessera
