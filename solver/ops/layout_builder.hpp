#pragma once

#include <vector>

#include "parallel/layout.hpp"

namespace tessera {

/// Puts a layout together mesh axis by mesh axis; axes not mentioned are Replicate.
class LayoutBuilder {
 public:
  LayoutBuilder(Mesh mesh, Shape shape)
      : mesh_(std::move(mesh)),
        shape_(std::move(shape)),
        placements_(Placements::filled(mesh_.axes(), Replicate())),
        partitions_(static_cast<std::size_t>(mesh_.axes()), Partition::even(0, 1)) {}

  LayoutBuilder& shard(int axis, int dim, Partition partition) {
    placements_[axis] = Shard(dim);
    partitions_[static_cast<std::size_t>(axis)] = std::move(partition);
    return *this;
  }
  LayoutBuilder& partial(int axis, ReduceOp op = ReduceOp::sum) {
    placements_[axis] = Partial(op);
    return *this;
  }
  /// What `from` does on this axis, with its dimension d renamed to d + shift.
  LayoutBuilder& like(const Layout& from, int axis, int shift = 0) {
    const Placement& p = from.placement(axis);
    if (p.is_shard()) return shard(axis, p.dim + shift, from.partition(axis));
    placements_[axis] = p;
    return *this;
  }
  Layout build() const { return Layout(mesh_, placements_, shape_, partitions_); }

 private:
  Mesh mesh_;
  Shape shape_;
  Placements placements_;
  std::vector<Partition> partitions_;
};

}  // namespace tessera
