#include "parallel/layout.hpp"

#include <utility>

namespace tessera {

struct Layout::Impl {
  Mesh mesh;
  Placements placements;
  Shape shape;
  std::vector<Partition> partitions;  // one per mesh axis; of one empty part where the axis does not shard
  InlineVector<int> axis_of_dim;      // the mesh axis that shards the dimension, or -1
  Box local_box;
  Shape local_shape;
};

namespace {

const Partition& no_partition() {
  static const Partition partition = Partition::even(0, 1);
  return partition;
}

void check_shard(const Mesh& mesh, int axis, int dim, const Shape& shape, const Partition& partition) {
  const std::string where = fmt::format("layout, mesh axis '{}'", mesh.axis_name(axis));
  if (partition.extent() != shape[dim]) {
    fail(ExitCode::internal, where,
         "partition {} covers {} indices, expected {}, the size of dimension {} of {}", to_string(partition),
         partition.extent(), shape[dim], dim, to_string(shape));
  }
  if (partition.parts() != mesh.axis_size(axis)) {
    fail(ExitCode::internal, where, "partition {} has {} parts, expected {}, the size of the axis",
         to_string(partition), partition.parts(), mesh.axis_size(axis));
  }
}

/// The mesh axis that shards each dimension, after checking that the placements fit mesh and shape.
InlineVector<int> axes_of_dims(const Mesh& mesh, const Placements& placements, const Shape& shape) {
  require(placements.size() == mesh.axes(), "layout", "found {} placements {}, expected {} for mesh {}",
          placements.size(), to_string(placements), mesh.axes(), to_string(mesh));
  InlineVector<int> axis_of_dim = InlineVector<int>::filled(shape.size(), -1);
  for (int a = 0; a < placements.size(); ++a) {
    if (!placements[a].is_shard()) continue;
    const int dim = placements[a].dim;
    require(dim >= 0 && dim < shape.size(), "layout", "{} on mesh axis '{}' does not fit shape {}",
            to_string(placements[a]), mesh.axis_name(a), to_string(shape));
    require(axis_of_dim[dim] < 0, "layout",
            "mesh axes '{}' and '{}' both shard dimension {} of {}, expected one at most",
            mesh.axis_name(std::max(axis_of_dim[dim], 0)), mesh.axis_name(a), dim, to_string(shape));
    axis_of_dim[dim] = a;
  }
  return axis_of_dim;
}

}  // namespace

Layout::Layout(Mesh mesh, Placements placements, Shape shape, std::vector<Partition> partitions) {
  require(static_cast<bool>(mesh), "layout", "a layout needs a mesh");
  auto impl = std::make_shared<Impl>();
  impl->axis_of_dim = axes_of_dims(mesh, placements, shape);
  for (int a = 0; a < mesh.axes(); ++a) {
    if (!placements[a].is_shard()) {
      impl->partitions.push_back(no_partition());
      continue;
    }
    require(static_cast<std::size_t>(a) < partitions.size(), "layout",
            "found {} partitions, none for mesh axis '{}'", partitions.size(), mesh.axis_name(a));
    check_shard(mesh, a, placements[a].dim, shape, partitions[static_cast<std::size_t>(a)]);
    impl->partitions.push_back(std::move(partitions[static_cast<std::size_t>(a)]));
  }
  impl->mesh = std::move(mesh);
  impl->placements = placements;
  impl->shape = shape;
  impl_ = impl;
  impl->local_box = box(impl->mesh.rank());
  impl->local_shape = impl->local_box.shape();
}

Layout Layout::even(Mesh mesh, Placements placements, Shape shape) {
  require(static_cast<bool>(mesh), "layout", "a layout needs a mesh");
  axes_of_dims(mesh, placements, shape);
  std::vector<Partition> partitions;
  for (int a = 0; a < mesh.axes(); ++a) {
    partitions.push_back(placements[a].is_shard()
                             ? Partition::even(shape[placements[a].dim], mesh.axis_size(a))
                             : no_partition());
  }
  return Layout(std::move(mesh), placements, shape, std::move(partitions));
}

Layout Layout::replicated(Mesh mesh, Shape shape) {
  require(static_cast<bool>(mesh), "layout", "a layout needs a mesh");
  const int axes = mesh.axes();
  return Layout(std::move(mesh), Placements::filled(axes, Replicate()), shape, {});
}

const Mesh& Layout::mesh() const {
  return impl_->mesh;
}

const Placements& Layout::placements() const {
  return impl_->placements;
}

const Shape& Layout::shape() const {
  return impl_->shape;
}

const Partition& Layout::partition(int mesh_axis) const {
  return impl_->partitions[static_cast<std::size_t>(mesh_axis)];
}

int Layout::mesh_axis_of(int dim) const {
  return impl_->axis_of_dim[dim];
}

bool Layout::is_replicated() const {
  return std::all_of(placements().begin(), placements().end(),
                     [](const Placement& p) { return p.is_replicate(); });
}

bool Layout::has_partial() const {
  return std::any_of(placements().begin(), placements().end(),
                     [](const Placement& p) { return p.is_partial(); });
}

Range Layout::range(int rank, int dim) const {
  const int axis = mesh_axis_of(dim);
  if (axis < 0) return {0, shape()[dim]};
  return partition(axis).range(mesh().coords(rank)[axis]);
}

Box Layout::box(int rank) const {
  Box box = Box::whole(shape());
  const MeshCoords coords = mesh().coords(rank);
  for (int d = 0; d < box.size(); ++d) {
    const int axis = mesh_axis_of(d);
    if (axis >= 0) box[d] = partition(axis).range(coords[axis]);
  }
  return box;
}

const Box& Layout::local_box() const {
  return impl_->local_box;
}

const Shape& Layout::local_shape() const {
  return impl_->local_shape;
}

Layout Layout::with_placement(int mesh_axis, Placement placement, Partition partition) const {
  Placements placements = impl_->placements;
  std::vector<Partition> partitions = impl_->partitions;
  placements[mesh_axis] = placement;
  partitions[static_cast<std::size_t>(mesh_axis)] = std::move(partition);
  return Layout(impl_->mesh, placements, impl_->shape, std::move(partitions));
}

Layout Layout::with_placement(int mesh_axis, Placement placement) const {
  require(!placement.is_shard(), "layout", "{} needs a partition", to_string(placement));
  return with_placement(mesh_axis, placement, no_partition());
}

Layout Layout::with_extent(int dim, Index extent,
                           const std::function<Partition(const Partition&)>& cuts) const {
  Shape shape = impl_->shape;
  if (dim < 0) dim += shape.size();
  require(dim >= 0 && dim < shape.size(), "layout", "dimension {} of {}", dim, to_string(shape));
  shape[dim] = extent;
  std::vector<Partition> partitions = impl_->partitions;
  if (const int axis = mesh_axis_of(dim); axis >= 0) {
    partitions[static_cast<std::size_t>(axis)] = cuts(partition(axis));
  }
  return Layout(impl_->mesh, impl_->placements, shape, std::move(partitions));
}

Layout Layout::with_extent(int dim, Index extent) const {
  return with_extent(dim, extent, [](const Partition& cuts) { return cuts; });
}

Layout Layout::reduced() const {
  if (!impl_ || !has_partial()) return *this;
  Placements placements = impl_->placements;
  for (Placement& placement : placements) placement = placement.is_partial() ? Replicate() : placement;
  return Layout(impl_->mesh, placements, impl_->shape, impl_->partitions);
}

bool Layout::operator==(const Layout& other) const {
  if (impl_ == other.impl_) return true;
  if (!impl_ || !other.impl_) return false;
  return mesh() == other.mesh() && placements() == other.placements() && shape() == other.shape() &&
         impl_->partitions == other.impl_->partitions;
}

std::string to_string(const Layout& layout) {
  if (!layout) return "plain";
  std::string text = to_string(layout.shape()) + " [";
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    text += (a ? ", " : "") + to_string(layout.placement(a));
    if (layout.placement(a).is_shard()) text += " " + to_string(layout.partition(a));
  }
  return text + "] on " + to_string(layout.mesh());
}

}  // namespace tessera
