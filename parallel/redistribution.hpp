#pragma once

#include <vector>

#include "parallel/layout.hpp"

namespace tessera {

/// One step on the way from a layout to another one of the same mesh and shape.
struct RedistributionStep {
  enum class Kind : std::uint8_t {
    relabel,     ///< the same elements stand for `to`; nothing moves
    addends,     ///< Shard or Replicate -> Partial(sum): zeros but for what this rank gives; nothing moves
    all_reduce,  ///< Partial -> Replicate on `axis`, or on every axis of the mesh (kAllAxes)
    reduce_scatter,  ///< Partial -> Shard on `axis`
    all_gather,      ///< Shard -> Replicate on `axis`
    all_to_all,      ///< Shard(i) -> Shard(j) on `axis`
    exchange,        ///< Shard and Replicate axes to other boxes, by messages of intersecting boxes
  };
  static constexpr int kAllAxes = -1;

  Kind kind = Kind::relabel;
  int axis = kAllAxes;
  Layout from;
  Layout to;

  /// Fills the local part under `to` from the local part under `from`: different buffers in device memory,
  /// contiguous, row-major. Collective over the group of the step.
  void run(const void* source, void* destination, DType type) const;
};

/// The Partial axes whose pending reduction happens on the way from `from` to `to`, first axis first: those
/// that `to` does not leave pending, and, since pending reductions apply in the order of the mesh axes,
/// earlier ones that do not commute with them. Axes of one rank have nothing pending.
InlineVector<int> ended_partials(const Layout& from, const Layout& to);

/// True if on the way the elements that each rank of `axis` holds become its addend, zero elsewhere
/// (Shard -> Partial(sum) with no need to gather).
bool embeds_shards(const Layout& from, const Layout& to, int axis);

/// How to get from one layout to another: what is a collective on one mesh axis runs as that collective, what
/// needs no communication has none, everything else is one exchange of intersecting boxes.
///
///  1. Partial axes that end: reduce_scatter where `to` cuts a dimension that is whole until then, else
///     all_reduce.
///  2. Shard axes that become Replicate, and no others: all_gather, one axis after the other.
///     One axis that cuts another dimension: all_to_all. Any other change of boxes: exchange.
///  3. Partial axes that begin: local.
///
/// All ranks compute the same communication from the layouts alone.
std::vector<RedistributionStep> redistribution_steps(const Layout& from, const Layout& to);

}  // namespace tessera
