#include "app/plan_cost.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera {

RankCost cost_of(const TrainingPlan& p, int rank) {
  RankCost c;
  c.cells = box_of(p.cuts, rank).volume();
  ModelConfig model = p.model;
  model.recompute = false;
  c.kept = sample_cost(model, p.cuts, rank, p.terms);
  model.recompute = true;
  c.recomputed = sample_cost(model, p.cuts, rank, p.terms);
  const std::vector<Index> counts = parameter_counts(p.model);
  c.plain = std::accumulate(counts.begin(), counts.end(), Index{0});
  c.sharded = p.terms.seasonal * c.cells * p.model.out_channels;
  c.gradients = gradient_traffic(counts, p.model.type);
  if (c.sharded > 0) c.sharded_gradients = gradient_traffic({&c.sharded, 1}, p.model.type);
  c.parameter_bytes = (c.plain + c.sharded) * static_cast<Index>(size_of(p.model.type));
  c.optimizer_bytes = c.parameter_bytes * p.optimizer_states;
  c.average_bytes = p.average ? c.parameter_bytes : 0;
  const Index fields = p.model.out_channels * (p.terms.base ? 2 : 1);
  c.sample_bytes = c.cells * (p.model.in_channels + fields) * static_cast<Index>(sizeof(float));
  return c;
}

Index largest_device_bytes(const TrainingPlan& p, bool recompute) {
  // Ranks with boxes of one shape differ in their halos alone: one of each is counted.
  std::map<std::vector<Index>, Index> by_shape;
  Index largest = 0;
  for (int rank = 0; rank < ranks_of(p.cuts); ++rank) {
    const Shape shape = box_of(p.cuts, rank).shape();
    const std::vector<Index> key(shape.begin(), shape.end());
    const auto at = by_shape.find(key);
    const Index bytes = at == by_shape.end() ? cost_of(p, rank).device_bytes(recompute) : at->second;
    by_shape.emplace(key, bytes);
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace tessera
