#include "parallel/redistribution.hpp"

#include <algorithm>

#include "parallel/device_messages.hpp"
#include "parallel/exchange_plan.hpp"
#include "parallel/strided_block.hpp"

namespace tessera {
namespace {

using Kind = RedistributionStep::Kind;

bool commute(ReduceOp a, ReduceOp b) {
  const auto is_linear = [](ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::avg; };
  return a == b || (is_linear(a) && is_linear(b));
}

/// On an axis of one rank all placements hold the same elements; here they are Replicate.
Layout without_single_ranks(Layout layout) {
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    if (layout.mesh().axis_size(a) == 1) layout = layout.with_placement(a, Replicate());
  }
  return layout;
}

/// True if `axis` may shard `dim` of a tensor laid out as `layout`.
bool is_free(const Layout& layout, int axis, int dim) {
  const int owner = layout.mesh_axis_of(dim);
  return owner < 0 || owner == axis;
}

/// True if the reduction pending on `axis` can leave each rank its part under `goal` only.
bool can_scatter(const Layout& at, const Layout& goal, int axis) {
  const Placement& p = goal.placement(axis);
  return p.is_shard() && is_free(at, axis, p.dim);
}

/// True if `axis` begins to be Partial(sum).
bool begins_sum(const Layout& from, const Layout& to, int axis) {
  const Placement& p = to.placement(axis);
  return p.is_partial() && p.op == ReduceOp::sum && !from.placement(axis).is_partial();
}

/// embeds_shards() of layouts whose axes of one rank are Replicate.
bool embeds(const Layout& from, const Layout& to, int axis) {
  const Placement& p = from.placement(axis);
  return p.is_shard() && begins_sum(from, to, axis) && is_free(to, axis, p.dim);
}

/// The steps so far.
class Way {
 public:
  explicit Way(const Layout& from) : at_(from) {}

  const Layout& at() const { return at_; }
  void go(Kind kind, int axis, const Layout& to) {
    if (kind == Kind::relabel && at_ == to) return;
    steps_.push_back({kind, axis, at_, to});
    at_ = to;
  }
  std::vector<RedistributionStep> steps() && { return std::move(steps_); }

 private:
  Layout at_;
  std::vector<RedistributionStep> steps_;
};

/// True if the ranks that differ along `axes` are all ranks of the mesh.
bool covers(const Mesh& mesh, const InlineVector<int>& axes) {
  Index ranks = 1;
  for (int a : axes) ranks *= mesh.axis_size(a);
  return ranks == mesh.size();
}

/// Reduces on one of `axes`, whose reductions happen in this order; returns those that are left.
InlineVector<int> reduce_first(Way& way, const Layout& goal, InlineVector<int> axes) {
  const auto op = [&](int axis) { return way.at().placement(axis).op; };
  const auto as_first = [&](int a) { return op(a) == op(axes[0]) && !goal.placement(a).is_shard(); };
  if (axes.size() > 1 && covers(goal.mesh(), axes) && std::all_of(axes.begin(), axes.end(), as_first)) {
    way.go(Kind::all_reduce, RedistributionStep::kAllAxes, Layout::replicated(goal.mesh(), goal.shape()));
    return {};
  }
  // Axes may change places with those before them if all commute; scattering first makes the rest smaller.
  int chosen = 0;
  for (int i = 0; i < axes.size() && commute(op(axes[0]), op(axes[i])); ++i) {
    if (can_scatter(way.at(), goal, axes[i])) {
      chosen = i;
      break;
    }
  }
  const int axis = axes[chosen];
  if (can_scatter(way.at(), goal, axis)) {
    way.go(Kind::reduce_scatter, axis,
           way.at().with_placement(axis, goal.placement(axis), goal.partition(axis)));
  } else {
    way.go(Kind::all_reduce, axis, way.at().with_placement(axis, Replicate()));
  }
  axes.erase(chosen);
  return axes;
}

/// Brings Shard and Replicate axes to the boxes of `to`.
void move_boxes(Way& way, const Layout& to) {
  InlineVector<int> changed;
  for (int a = 0; a < to.mesh().axes(); ++a) {
    const bool same_cuts = !to.placement(a).is_shard() || way.at().partition(a) == to.partition(a);
    if (!(way.at().placement(a) == to.placement(a)) || !same_cuts) changed.push_back(a);
  }
  if (changed.empty()) return;
  const auto is_gathered = [&](int a) {
    return way.at().placement(a).is_shard() && to.placement(a).is_replicate();
  };
  if (std::all_of(changed.begin(), changed.end(), is_gathered)) {
    for (int i = changed.size() - 1; i >= 0; --i) {
      way.go(Kind::all_gather, changed[i], way.at().with_placement(changed[i], Replicate()));
    }
    return;
  }
  const Placement before = way.at().placement(changed[0]), after = to.placement(changed[0]);
  const bool turns = changed.size() == 1 && before.is_shard() && after.is_shard() && before.dim != after.dim;
  way.go(turns ? Kind::all_to_all : Kind::exchange, changed[0], to);
}

/// The local buffer of a group of ranks along one axis that holds all of dimension `dim`, and its parts, one
/// for each rank of the axis, cut at `cuts`:
///
///     whole (2, 5, C), dim 1, cuts 0:3:5          parts
///     | a a a b b |                               a a a a a a | b b b b
///     | a a a b b |
class Parts {
 public:
  Parts(const Shape& whole, int dim, const Partition& cuts) : cuts_(cuts) {
    for (int d = 0; d < dim; ++d) outer_ *= whole[d];
    for (int d = dim + 1; d < whole.size(); ++d) inner_ *= whole[d];
  }

  std::vector<Index> counts() const {
    std::vector<Index> counts;
    for (int p = 0; p < cuts_.parts(); ++p) counts.push_back(outer_ * cuts_.range(p).size() * inner_);
    return counts;
  }
  Index volume() const { return outer_ * cuts_.extent() * inner_; }
  /// True if the parts follow each other in the whole.
  bool in_order() const { return outer_ == 1; }

  /// The parts, one after the other: `whole` itself where it has them in order, else packed into `memory`.
  const void* pack(const void* whole, MemoryBlock& memory, DType type) const {
    if (in_order()) return whole;
    memory = MemoryBlock(MemorySpace::device, bytes(type));
    for (const StridedBlock& block : blocks()) copy_block(block, whole, memory.data(), size_of(type));
    return memory.data();
  }
  /// Where to put the parts, one after the other, for unpack().
  void* staging(void* whole, MemoryBlock& memory, DType type) const {
    if (in_order()) return whole;
    memory = MemoryBlock(MemorySpace::device, bytes(type));
    return memory.data();
  }
  void unpack(void* whole, const MemoryBlock& memory, DType type) const {
    if (in_order()) return;
    for (const StridedBlock& block : blocks()) {
      copy_block(reversed(block), memory.data(), whole, size_of(type));
    }
  }

 private:
  std::size_t bytes(DType type) const { return static_cast<std::size_t>(volume()) * size_of(type); }

  /// From the whole to the parts.
  std::vector<StridedBlock> blocks() const {
    std::vector<StridedBlock> blocks;
    for (int p = 0; p < cuts_.parts(); ++p) {
      const Range range = cuts_.range(p);
      if (outer_ * range.size() * inner_ == 0) continue;
      StridedBlock block;
      block.from = range.lo * inner_;
      block.to = outer_ * range.lo * inner_;
      block.push_back(outer_, cuts_.extent() * inner_, range.size() * inner_);
      block.push_back(range.size() * inner_, 1, 1);
      blocks.push_back(simplify(block));
    }
    return blocks;
  }

  const Partition& cuts_;
  Index outer_ = 1;
  Index inner_ = 1;
};

void all_reduce(const RedistributionStep& step, const void* source, void* destination, DType type) {
  const Mesh& mesh = step.from.mesh();
  const bool everywhere = step.axis == RedistributionStep::kAllAxes;
  const Placements& before = step.from.placements();
  const Placement& pending = everywhere ? *std::find_if(before.begin(), before.end(),
                                                        [](const Placement& p) { return p.is_partial(); })
                                        : before[step.axis];
  const Index count = step.to.local_box().volume();
  copy_bytes(destination, MemorySpace::device, source, MemorySpace::device,
             static_cast<std::size_t>(count) * size_of(type));
  if (count == 0) return;
  Communicator& comm = everywhere ? mesh.comm() : mesh.axis_comm(step.axis);
  device_all_reduce(comm, destination, count, type, pending.op).wait();
}

void reduce_scatter(const RedistributionStep& step, const void* source, void* destination, DType type) {
  const Parts parts(step.from.local_shape(), step.to.placement(step.axis).dim, step.to.partition(step.axis));
  if (parts.volume() == 0) return;
  MemoryBlock packed;
  device_reduce_scatter(step.from.mesh().axis_comm(step.axis), parts.pack(source, packed, type), destination,
                        parts.counts(), type, step.from.placement(step.axis).op);
}

void all_gather(const RedistributionStep& step, const void* source, void* destination, DType type) {
  const Parts parts(step.to.local_shape(), step.from.placement(step.axis).dim,
                    step.from.partition(step.axis));
  if (parts.volume() == 0) return;
  MemoryBlock packed;
  device_all_gather(step.from.mesh().axis_comm(step.axis), source, parts.staging(destination, packed, type),
                    parts.counts(), type);
  parts.unpack(destination, packed, type);
}

void all_to_all(const RedistributionStep& step, const void* source, void* destination, DType type) {
  const Parts sent(step.from.local_shape(), step.to.placement(step.axis).dim, step.to.partition(step.axis));
  const Parts received(step.to.local_shape(), step.from.placement(step.axis).dim,
                       step.from.partition(step.axis));
  MemoryBlock packed_sent, packed_received;
  device_all_to_all(step.from.mesh().axis_comm(step.axis), sent.pack(source, packed_sent, type),
                    sent.counts(), received.staging(destination, packed_received, type), received.counts(),
                    type);
  received.unpack(destination, packed_received, type);
}

/// True if this rank's addend is its part, not zero: it is the first of the replicas along each axis that
/// begins to be Partial(sum).
bool gives_addend(const Layout& from, const Layout& to) {
  const MeshCoords coords = to.mesh().coords();
  for (int a = 0; a < coords.size(); ++a) {
    if (begins_sum(from, to, a) && from.placement(a).is_replicate() && coords[a] != 0) return false;
  }
  return true;
}

void addends(const RedistributionStep& step, const void* source, void* destination, DType type) {
  zero_bytes(destination, MemorySpace::device,
             static_cast<std::size_t>(step.to.local_box().volume()) * size_of(type));
  if (!gives_addend(step.from, step.to)) return;
  const Box given = step.from.local_box();
  const Box into = step.to.local_box();
  NeedMap need;
  for (int d = 0; d < given.size(); ++d) {
    need.push_back({into[d], {{given[d].lo, given[d].size(), 0, 1}}});
  }
  if (!given.is_empty()) ExchangePlan(given.shape(), need).forward(source, destination, type);
}

}  // namespace

InlineVector<int> ended_partials(const Layout& from, const Layout& to) {
  InlineVector<int> axes;
  for (int a = from.mesh().axes() - 1; a >= 0; --a) {
    const Placement& p = from.placement(a);
    if (!p.is_partial() || from.mesh().axis_size(a) == 1) continue;
    const bool overtaken = std::any_of(axes.begin(), axes.end(),
                                       [&](int later) { return !commute(p.op, from.placement(later).op); });
    if (overtaken || !(p == to.placement(a))) axes.insert(0, a);
  }
  return axes;
}

bool embeds_shards(const Layout& from, const Layout& to, int axis) {
  return embeds(without_single_ranks(from), without_single_ranks(to), axis);
}

std::vector<RedistributionStep> redistribution_steps(const Layout& from, const Layout& to) {
  if (from == to) return {};
  Way way(from);
  way.go(Kind::relabel, RedistributionStep::kAllAxes, without_single_ranks(from));
  const Layout goal = without_single_ranks(to);
  for (InlineVector<int> axes = ended_partials(way.at(), goal); !axes.empty();) {
    axes = reduce_first(way, goal, axes);
  }
  // What begins to be Partial is Replicate until then, or stays as it is cut.
  Layout boxes = goal;
  bool sums = false;
  for (int a = 0; a < goal.mesh().axes(); ++a) {
    if (!goal.placement(a).is_partial() || way.at().placement(a).is_partial()) continue;
    sums = sums || begins_sum(way.at(), goal, a);
    boxes = embeds(way.at(), goal, a) ? boxes.with_placement(a, way.at().placement(a), way.at().partition(a))
                                      : boxes.with_placement(a, Replicate());
  }
  move_boxes(way, boxes);
  const bool all_given = gives_addend(boxes, goal) && boxes.local_box() == goal.local_box();
  way.go(sums && !all_given ? Kind::addends : Kind::relabel, RedistributionStep::kAllAxes, goal);
  way.go(Kind::relabel, RedistributionStep::kAllAxes, to);
  return std::move(way).steps();
}

void RedistributionStep::run(const void* source, void* destination, DType type) const {
  switch (kind) {
    case Kind::relabel:
      return copy_bytes(destination, MemorySpace::device, source, MemorySpace::device,
                        static_cast<std::size_t>(to.local_box().volume()) * size_of(type));
    case Kind::addends:
      return addends(*this, source, destination, type);
    case Kind::all_reduce:
      return all_reduce(*this, source, destination, type);
    case Kind::reduce_scatter:
      return reduce_scatter(*this, source, destination, type);
    case Kind::all_gather:
      return all_gather(*this, source, destination, type);
    case Kind::all_to_all:
      return all_to_all(*this, source, destination, type);
    case Kind::exchange:
      return ExchangePlan(from, [&](int rank) { return need_of(to, rank); })
          .forward(source, destination, type);
  }
}

}  // namespace tessera
