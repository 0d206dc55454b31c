#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/communicator.hpp"

namespace tessera {

/// Name and size of a mesh axis; size -1 means "whatever is left".
struct MeshAxis {
  std::string name;
  int size = 1;
};

using MeshCoords = InlineVector<int>;

/// Named axes over the ranks of a communicator, row-major (the last axis varies fastest). A cheap handle;
/// copies share one mesh. Ranks are ranks of `comm()`.
class Mesh {
 public:
  Mesh() = default;  ///< no mesh
  /// Collective. Throws (usage) unless the product of the sizes is comm->size(); at most one size may be -1.
  /// Names are unique.
  Mesh(CommPtr comm, std::span<const MeshAxis> axes);

  explicit operator bool() const { return impl_ != nullptr; }
  int axes() const;
  int axis_size(int axis) const;
  int axis_size(std::string_view name) const { return axis_size(axis(name)); }
  std::string_view axis_name(int axis) const;
  /// Index of a named axis; throws (internal) and lists the names if there is none.
  int axis(std::string_view name) const;
  bool has_axis(std::string_view name) const;

  int size() const;
  int rank() const;
  /// Coordinates of a rank, and of this rank.
  MeshCoords coords(int rank) const;
  MeshCoords coords() const { return coords(rank()); }
  int rank_of(const MeshCoords& coords) const;

  /// All ranks of the mesh.
  Communicator& comm() const;
  CommPtr comm_ptr() const;
  /// The ranks that differ from this one along `axis` only; exists also where the axis has size 1.
  Communicator& axis_comm(int axis) const;
  Communicator& axis_comm(std::string_view name) const { return axis_comm(axis(name)); }

  /// The mesh of the named axes in the given order, over the ranks that agree with this one on all others.
  /// Collective the first time, cached afterwards.
  Mesh sub(std::span<const std::string> names) const;

  /// The mesh of all axes but the named one (which need not exist), as sub() makes it; no mesh where there is
  /// no other axis.
  Mesh without(std::string_view name) const;

  /// Same handle, hence same ranks, axes and communicators.
  bool operator==(const Mesh& other) const { return impl_ == other.impl_; }

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// "(ddp: 2, domain: 4)".
std::string to_string(const Mesh& mesh);

}  // namespace tessera
