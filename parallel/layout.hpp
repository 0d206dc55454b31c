#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/box.hpp"
#include "parallel/mesh.hpp"
#include "parallel/partition.hpp"
#include "parallel/placement.hpp"

namespace tessera {

/// Who owns what of a tensor of `shape`: one placement per mesh axis and one Partition per Shard axis. From a
/// layout any rank computes any other rank's box; nothing is ever asked over the network. A cheap, immutable
/// handle.
///
///     mesh (domain_y: 2, domain_x: 2), shape (1, 5, 6, C), [Shard(1) 0:3:5, Shard(2) 0:2:6]
///          x 0..2   2..6
///     y 0..3  rank 0 | rank 1
///     y 3..5  rank 2 | rank 3
class Layout {
 public:
  Layout() = default;  ///< no layout: a plain tensor
  /// `partitions[a]` cuts the dimension that mesh axis a shards and is ignored for the other axes. Throws
  /// where the number of placements, a dimension, a partition's extent or its number of parts does not fit,
  /// and where two mesh axes shard one dimension.
  Layout(Mesh mesh, Placements placements, Shape shape, std::vector<Partition> partitions);
  /// Even cut points on every Shard axis.
  static Layout even(Mesh mesh, Placements placements, Shape shape);
  /// Replicate on every axis.
  static Layout replicated(Mesh mesh, Shape shape);

  explicit operator bool() const { return impl_ != nullptr; }
  const Mesh& mesh() const;
  const Placements& placements() const;
  const Placement& placement(int mesh_axis) const { return placements()[mesh_axis]; }
  const Shape& shape() const;
  /// The cut points of a Shard axis.
  const Partition& partition(int mesh_axis) const;
  /// The mesh axis that shards `dim`, or -1.
  int mesh_axis_of(int dim) const;
  bool is_sharded(int dim) const { return mesh_axis_of(dim) >= 0; }
  bool is_replicated() const;  ///< Replicate on every axis
  bool has_partial() const;

  /// The box of a rank of the mesh, and of this rank.
  Box box(int rank) const;
  const Box& local_box() const;
  const Shape& local_shape() const;
  /// The range of dimension `dim` owned by the rank.
  Range range(int rank, int dim) const;

  /// The same layout with other placements, shape or cut points on chosen axes.
  Layout with_placement(int mesh_axis, Placement placement, Partition partition) const;
  Layout with_placement(int mesh_axis, Placement placement) const;  ///< Replicate or Partial
  /// The same placements with `extent` indices along dimension `dim` (counted from the end if negative). A
  /// mesh axis that shards it gets the cut points cuts(its partition), or keeps its own, which then have to
  /// cover `extent`.
  Layout with_extent(int dim, Index extent, const std::function<Partition(const Partition&)>& cuts) const;
  Layout with_extent(int dim, Index extent) const;
  /// Every axis whose placement is Partial made Replicate: the layout of this tensor's gradient, and of its
  /// reduced value.
  Layout reduced() const;

  /// Equal mesh, placements, shape and cut points.
  bool operator==(const Layout& other) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// "(1, 5, 6, 8) [Shard(1) 0:3:5, Replicate] on (domain_y: 2, domain_x: 2)".
std::string to_string(const Layout& layout);

}  // namespace tessera
