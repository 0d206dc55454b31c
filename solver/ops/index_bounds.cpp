#include "solver/ops/index_bounds.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace tessera {

IndexBounds index_bounds(const Tensor& index) {
  if (count(index.shape()) == 0) return {};
  std::array<std::int64_t, 2> extremes;  // of the negated elements, and of the elements
  extremes.fill(std::numeric_limits<std::int64_t>::min());
  for (const std::int64_t i : index.to_host<std::int64_t>()) {
    extremes = {std::max(extremes[0], -i), std::max(extremes[1], i)};
  }
  if (index.is_shard() && !index.layout().is_replicated()) {
    index.layout().mesh().comm().all_reduce(extremes.data(), 2, DType::i64, ReduceOp::max);
  }
  return {-extremes[0], extremes[1]};
}

}  // namespace tessera
