#include "parallel/partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera {

Partition::Partition(std::vector<Index> cuts) : cuts_(std::move(cuts)) {
  require(cuts_.size() >= 2, "Partition", "found {} cut points, expected at least 2", cuts_.size());
  require(cuts_.front() == 0, "Partition", "first cut point is {}, expected 0", cuts_.front());
  require(std::is_sorted(cuts_.begin(), cuts_.end()), "Partition", "cut points {} decrease",
          to_string(*this));
}

Partition Partition::even(Index extent, int parts) {
  require(parts >= 1 && extent >= 0, "Partition", "cannot cut {} indices into {} parts", extent, parts);
  std::vector<Index> cuts{0};
  for (int p = 0; p < parts; ++p) cuts.push_back(cuts.back() + extent / parts + (p < extent % parts ? 1 : 0));
  return Partition(std::move(cuts));
}

Partition Partition::chunk(Index extent, int parts) {
  require(parts >= 1 && extent >= 0, "Partition", "cannot cut {} indices into {} parts", extent, parts);
  const Index size = (extent + parts - 1) / parts;
  std::vector<Index> cuts{0};
  for (int p = 1; p <= parts; ++p) cuts.push_back(std::min(extent, p * size));
  return Partition(std::move(cuts));
}

Partition Partition::from_sizes(std::span<const Index> sizes) {
  std::vector<Index> cuts{0};
  for (Index size : sizes) cuts.push_back(cuts.back() + size);
  return Partition(std::move(cuts));
}

Partition Partition::from_weights(Index extent, std::span<const double> weights, Index unit) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  require(total > 0 && std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; }),
          "Partition", "weights must be non-negative with a positive sum, found sum {}", total);
  std::vector<Index> cuts{0};
  double sum = 0;
  for (double weight : weights) {
    sum += weight;
    const double exact = static_cast<double>(extent) * sum / total;
    const Index rounded = static_cast<Index>(std::llround(exact / static_cast<double>(unit))) * unit;
    cuts.push_back(std::clamp(rounded, cuts.back(), extent));
  }
  cuts.back() = extent;
  return Partition(std::move(cuts));
}

Partition Partition::balanced(const Partition& old, std::span<const double> seconds, Index unit) {
  require(seconds.size() == static_cast<std::size_t>(old.parts()), "Partition",
          "found {} times, expected one for each of {} parts", seconds.size(), old.parts());
  std::vector<double> speeds(seconds.size(), 0.0);
  double sum = 0;
  int known = 0;
  for (std::size_t p = 0; p < speeds.size(); ++p) {
    const Index size = old.range(static_cast<int>(p)).size();
    if (size == 0 || !(seconds[p] > 0)) continue;
    speeds[p] = static_cast<double>(size) / seconds[p];
    sum += speeds[p];
    ++known;
  }
  if (known == 0) return old;
  for (double& speed : speeds) speed = speed > 0 ? speed : sum / known;
  return from_weights(old.extent(), speeds, unit);
}

int Partition::owner(Index i) const {
  require(i >= 0 && i < extent(), "Partition", "index {} outside [0, {})", i, extent());
  return static_cast<int>(std::upper_bound(cuts_.begin(), cuts_.end(), i) - cuts_.begin()) - 1;
}

Partition Partition::strided(Index stride, Index outputs) const {
  std::vector<Index> cuts;
  for (Index c : cuts_) cuts.push_back(std::min((c + stride - 1) / stride, outputs));
  cuts.back() = outputs;
  return Partition(std::move(cuts));
}

Partition Partition::transposed(Index stride, Index outputs) const {
  std::vector<Index> cuts;
  for (Index c : cuts_) cuts.push_back(std::min(c * stride, outputs));
  cuts.back() = outputs;
  return Partition(std::move(cuts));
}

std::string to_string(const Partition& partition) {
  std::string text;
  for (Index c : partition.cuts()) text += (text.empty() ? "" : ":") + std::to_string(c);
  return text;
}

}  // namespace tessera
