#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/axis_map.hpp"
#include "parallel/communicator.hpp"
#include "parallel/layout.hpp"

namespace tessera {

/// One AxisMap per dimension: what a rank needs, and where in the source index space it comes from.
using NeedMap = InlineVector<AxisMap>;

/// Movement between boxes: "these ranks own these boxes, those ranks need those boxes". Halo exchange,
/// redistribution, padding, roll, flip, slices and hyperslab scatter are all plans. A plan is built from
/// layouts alone, without communication, once per pattern, and used many times.
///
/// Forward:  destination[i] = source[map(i)] for every destination index covered by a segment; others are
/// left alone. Adjoint:  source_cotangent[map(i)] += destination_cotangent[i], in a fixed order.
///
/// Where the source is replicated over a mesh axis, a rank takes from the replica that shares its coordinate
/// on that axis (from itself, if it holds the data), so the adjoint adds each contribution to exactly one
/// replica: the result is Partial(sum) on that axis.
class ExchangePlan {
 public:
  /// The source is laid out as `source` (no Partial axis is looked at); `need(rank)` gives what each rank of
  /// the mesh needs.
  ExchangePlan(const Layout& source, const std::function<NeedMap(int rank)>& need);
  /// A local plan on one process over a plain source of `shape`.
  ExchangePlan(const Shape& shape, const NeedMap& need);
  /// Each rank needs several boxes, or none; they lie one behind another in the destination buffer.
  ExchangePlan(const Layout& source, const std::function<std::vector<NeedMap>(int rank)>& needs);
  ExchangePlan(const Shape& shape, const std::vector<NeedMap>& needs);

  /// Shape of this rank's source buffer (its box).
  const Shape& source_shape() const;
  /// Shape of this rank's destination buffer (the ranges of its NeedMap); of several needs, the number of
  /// elements of all.
  const Shape& destination_shape() const;
  /// True if no rank sends any message (known to all ranks alike).
  bool is_local() const;
  /// True if the destination is filled completely by segments (no constant boundary).
  bool covers_destination() const;
  /// Messages and payload elements that this rank sends in a forward pass.
  int messages() const;
  Index elements_sent() const;

  /// A movement under way. Destroying it without finish() waits.
  class Motion {
   public:
    Motion() = default;
    /// Lets messages make progress; returns at once.
    void poll();
    /// Waits for the messages and unpacks them.
    void finish();

   private:
    friend class ExchangePlan;
    struct State;
    std::shared_ptr<State> state_;
  };

  /// Posts every message and copies what this rank keeps. Buffers are device memory, contiguous, row-major. A
  /// message of one dense run of elements is sent from the source and received in the destination, others are
  /// packed: until finish() the destination is not to be touched, nor what others read of the source changed.
  Motion start(const void* source, void* destination, DType type) const;
  void forward(const void* source, void* destination, DType type) const {
    start(source, destination, type).finish();
  }
  /// Posts every message; finish() adds to `source_cotangent`, which has to be initialised by then. Until
  /// then the destination's cotangent stays as it is.
  Motion start_adjoint(const void* destination_cotangent, void* source_cotangent, DType type) const;
  void adjoint(const void* destination_cotangent, void* source_cotangent, DType type) const {
    start_adjoint(destination_cotangent, source_cotangent, type).finish();
  }

 private:
  struct Impl;
  Motion begin(const void* source, void* target, DType type, bool is_adjoint) const;

  std::shared_ptr<const Impl> impl_;
};

/// What every rank needs to hold its box of `target` (same mesh and shape as the source, Shard or Replicate
/// axes).
NeedMap need_of(const Layout& target, int rank);

}  // namespace tessera
