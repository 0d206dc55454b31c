#pragma once

#include <string>

#include "parallel/communicator.hpp"

namespace tessera {

/// What one mesh axis does with a tensor: cut it along a dimension, keep a copy on each rank, or hold addends
/// whose reduction is pending.
struct Placement {
  enum class Kind : std::uint8_t { shard, replicate, partial };

  Kind kind = Kind::replicate;
  int dim = -1;                 ///< the dimension cut, for shard
  ReduceOp op = ReduceOp::sum;  ///< the pending reduction, for partial

  bool is_shard() const { return kind == Kind::shard; }
  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_partial() const { return kind == Kind::partial; }
  bool operator==(const Placement&) const = default;
};

inline Placement Shard(int dim) {
  return {Placement::Kind::shard, dim, ReduceOp::sum};
}
inline Placement Replicate() {
  return {};
}
inline Placement Partial(ReduceOp op = ReduceOp::sum) {
  return {Placement::Kind::partial, -1, op};
}

using Placements = InlineVector<Placement>;

/// "Shard(1)", "Replicate", "Partial(sum)".
std::string to_string(const Placement& placement);
/// "[Shard(1), Replicate]".
std::string to_string(const Placements& placements);

}  // namespace tessera
