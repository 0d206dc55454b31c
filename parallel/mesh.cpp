#include "parallel/mesh.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "parallel/mesh_axes.hpp"

namespace tessera {

struct Mesh::Impl {
  CommPtr comm;
  std::vector<MeshAxis> axes;
  std::vector<CommPtr> axis_comms;
  std::map<std::vector<std::string>, Mesh> subs;
};

std::string to_string(std::span<const MeshAxis> axes) {
  std::string text = "(";
  for (const MeshAxis& axis : axes)
    text += (text.size() > 1 ? ", " : "") + fmt::format("{}: {}", axis.name, axis.size);
  return text + ")";
}

std::vector<MeshAxis> resolved_axes(std::span<const MeshAxis> axes, int ranks) {
  const auto usage = [&](const std::string& what) {
    fail(ExitCode::usage, "mesh", "{} in {}", what, to_string(axes));
  };
  if (axes.empty() || axes.size() > static_cast<std::size_t>(kMaxDims)) {
    usage(fmt::format("found {} axes, expected 1 to {}", axes.size(), kMaxDims));
  }
  Index product = 1;
  int open = 0;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const auto same_name = [&](const MeshAxis& other) { return other.name == axes[a].name; };
    if (std::any_of(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(a), same_name)) {
      usage(fmt::format("axis name '{}' occurs twice", axes[a].name));
    }
    if (axes[a].size == -1) {
      ++open;
    } else if (axes[a].size < 1) {
      usage(
          fmt::format("size {} of axis '{}', expected a positive number or -1", axes[a].size, axes[a].name));
    } else {
      // Once too large, it stays so; kept below the point where it would overflow.
      product = std::min<Index>(product * axes[a].size, std::numeric_limits<int>::max());
    }
  }
  if (open > 1) usage("more than one size is -1");
  if (open == 1 && ranks % product != 0) {
    usage(fmt::format("{} ranks cannot be divided by {}, the product of the other sizes,", ranks, product));
  }
  if (open == 0 && product != ranks) {
    usage(fmt::format("the product of the sizes is {}, but there are {} ranks,", product, ranks));
  }
  std::vector<MeshAxis> resolved(axes.begin(), axes.end());
  for (MeshAxis& axis : resolved) axis.size = axis.size == -1 ? static_cast<int>(ranks / product) : axis.size;
  return resolved;
}

namespace {

/// Row-major number of the chosen coordinates.
int flatten(const Mesh& mesh, const MeshCoords& coords, const std::vector<int>& axes) {
  int number = 0;
  for (int a : axes) number = number * mesh.axis_size(a) + coords[a];
  return number;
}

/// The axes that are not in `axes`.
std::vector<int> other_axes(const Mesh& mesh, const std::vector<int>& axes) {
  std::vector<int> others;
  for (int a = 0; a < mesh.axes(); ++a) {
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) others.push_back(a);
  }
  return others;
}

CommPtr split_along(const Mesh& mesh, const std::vector<int>& axes, const std::string& name) {
  const int color = flatten(mesh, mesh.coords(), other_axes(mesh, axes));
  return mesh.comm().split(color, flatten(mesh, mesh.coords(), axes), name);
}

}  // namespace

Mesh::Mesh(CommPtr comm, std::span<const MeshAxis> axes) : impl_(std::make_shared<Impl>()) {
  impl_->axes = resolved_axes(axes, comm->size());
  impl_->comm = std::move(comm);
  for (int a = 0; a < this->axes(); ++a) {
    impl_->axis_comms.push_back(split_along(*this, {a}, impl_->axes[static_cast<std::size_t>(a)].name));
  }
}

int Mesh::axes() const {
  return static_cast<int>(impl_->axes.size());
}

int Mesh::axis_size(int axis) const {
  return impl_->axes[static_cast<std::size_t>(axis)].size;
}

std::string_view Mesh::axis_name(int axis) const {
  return impl_->axes[static_cast<std::size_t>(axis)].name;
}

bool Mesh::has_axis(std::string_view name) const {
  return std::any_of(impl_->axes.begin(), impl_->axes.end(),
                     [&](const MeshAxis& a) { return a.name == name; });
}

int Mesh::axis(std::string_view name) const {
  for (int a = 0; a < axes(); ++a) {
    if (axis_name(a) == name) return a;
  }
  fail(ExitCode::internal, "mesh", "no axis '{}' in {}", name, to_string(*this));
}

int Mesh::size() const {
  return impl_->comm->size();
}

int Mesh::rank() const {
  return impl_->comm->rank();
}

MeshCoords Mesh::coords(int rank) const {
  MeshCoords coords = MeshCoords::filled(axes(), 0);
  for (int a = axes() - 1; a >= 0; --a) {
    coords[a] = rank % axis_size(a);
    rank /= axis_size(a);
  }
  return coords;
}

int Mesh::rank_of(const MeshCoords& coords) const {
  int rank = 0;
  for (int a = 0; a < axes(); ++a) rank = rank * axis_size(a) + coords[a];
  return rank;
}

Communicator& Mesh::comm() const {
  return *impl_->comm;
}

CommPtr Mesh::comm_ptr() const {
  return impl_->comm;
}

Communicator& Mesh::axis_comm(int axis) const {
  return *impl_->axis_comms[static_cast<std::size_t>(axis)];
}

Mesh Mesh::sub(std::span<const std::string> names) const {
  const std::vector<std::string> key(names.begin(), names.end());
  if (const auto found = impl_->subs.find(key); found != impl_->subs.end()) return found->second;
  std::vector<int> chosen;
  std::vector<MeshAxis> sub_axes;
  std::string label;
  for (const std::string& name : key) {
    chosen.push_back(axis(name));
    sub_axes.push_back(impl_->axes[static_cast<std::size_t>(chosen.back())]);
    label += (label.empty() ? "" : "+") + name;
  }
  std::vector<int> all(static_cast<std::size_t>(axes()));
  std::iota(all.begin(), all.end(), 0);
  if (chosen == all) return *this;
  Mesh mesh(split_along(*this, chosen, label), sub_axes);
  impl_->subs.emplace(key, mesh);
  return mesh;
}

Mesh Mesh::without(std::string_view name) const {
  std::vector<std::string> names;
  for (const MeshAxis& axis : impl_->axes) {
    if (axis.name != name) names.push_back(axis.name);
  }
  return names.empty() ? Mesh() : sub(names);
}

std::string to_string(const Mesh& mesh) {
  if (!mesh) return "()";
  std::vector<MeshAxis> axes;
  for (int a = 0; a < mesh.axes(); ++a) axes.push_back({std::string(mesh.axis_name(a)), mesh.axis_size(a)});
  return to_string(axes);
}

}  // namespace tessera
