#include "io/statistics/moments.hpp"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

// Mean first, deviations second: a box is small enough to be read twice, and nothing cancels.
template <typename T>
void add(std::span<Moments> moments, const T* values, Index cells) {
  if (cells == 0) return;
  const auto channels = static_cast<Index>(moments.size());
  for (Index c = 0; c < channels; ++c) {
    Moments batch;
    batch.count = static_cast<double>(cells);
    double sum = 0;
    for (Index i = 0; i < cells; ++i) {
      const double v = values[i * channels + c];
      sum += v;
      batch.min = std::min(batch.min, v);
      batch.max = std::max(batch.max, v);
    }
    batch.mean = sum / batch.count;
    for (Index i = 0; i < cells; ++i) {
      const double d = values[i * channels + c] - batch.mean;
      batch.m2 += d * d;
    }
    moments[static_cast<std::size_t>(c)].merge(batch);
  }
}

}  // namespace

void Moments::merge(const Moments& other) {
  if (other.count == 0) return;
  const double total = count + other.count;
  const double delta = other.mean - mean;
  mean += delta * (other.count / total);
  m2 += other.m2 + delta * delta * (count * other.count / total);
  count = total;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

double Moments::deviation() const {
  return count > 0 ? std::sqrt(m2 / count) : 0;
}

double Moments::rms() const {
  return count > 0 ? std::sqrt(m2 / count + mean * mean) : 0;
}

void add_cells(std::span<Moments> moments, const float* values, Index cells) {
  add(moments, values, cells);
}
void add_cells(std::span<Moments> moments, const double* values, Index cells) {
  add(moments, values, cells);
}

void all_merge(Communicator& comm, std::span<Moments> moments) {
  static_assert(sizeof(Moments) == 5 * sizeof(double));
  const auto numbers = static_cast<Index>(5 * moments.size());
  std::vector<Moments> all(moments.size() * static_cast<std::size_t>(comm.size()));
  const std::vector<Index> counts(static_cast<std::size_t>(comm.size()), numbers);
  comm.all_gather(moments.data(), all.data(), counts, DType::f64);
  for (std::size_t c = 0; c < moments.size(); ++c) {
    Moments merged;
    for (int r = 0; r < comm.size(); ++r) merged.merge(all[static_cast<std::size_t>(r) * moments.size() + c]);
    moments[c] = merged;
  }
}

}  // namespace tessera
