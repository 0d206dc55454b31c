#include "io/fields/generic_scan.hpp"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

using hdf5::Dataset;
using hdf5::Group;

constexpr const char* kDeck = "data";
constexpr Index kMostExtent = Index{1}
                              << 24;  // lists of coordinates, times and trajectories have this length

bool is_axis(const std::string& role) {
  return role != "sample" && role != "time" && role != "channel" && (role.empty() || role[0] != '=');
}

Index fixed_index(const std::string& role) {
  std::size_t used = 0;
  Index value = -1;
  try {
    value = std::stoll(role.substr(1), &used);
  } catch (const std::exception&) {
    value = -1;
  }
  if (value < 0 || used + 1 != role.size()) {
    fail(ExitCode::usage, kDeck, "dimension '{}': expected '=' and an index", role);
  }
  return value;
}

// A NetCDF dimension without a variable is a scale that holds no coordinates.
bool has_values(const Group& root, const std::string& scale) {
  return !scale.empty() && root.has_dataset(scale) &&
         !root.dataset(scale).text("NAME").value_or("").starts_with(
             "This is a netCDF dimension but not a netCDF");
}

std::vector<double> read_line(const Dataset& dataset, Index extent) {
  dataset.expect_shape({extent});
  return dataset.read_all<double>();
}

// Looks at the variables one after the other; the first one that has a dimension of some meaning sets its
// extent.
class Scanner {
 public:
  Scanner(const GenericSourceSpec& spec, const std::vector<std::string>& axes, Group root)
      : spec_(spec), root_(std::move(root)) {
    for (const std::string& name : axes) file_.axes.push_back({.name = name, .unit = "", .coordinates = {}});
    for (const GenericVariable& variable : spec.variables) add(variable);
    finish();
  }

  GenericFile take() { return std::move(file_); }

 private:
  void add(const GenericVariable& variable) {
    const Dataset dataset = root_.dataset(variable.dataset);
    const auto& roles = variable.dims.empty() ? spec_.dims : variable.dims;
    const Shape& shape = dataset.shape();
    if (shape.size() != static_cast<int>(roles.size())) {
      std::string text;
      for (const auto& role : roles) text += (text.empty() ? "" : ", ") + role;
      fail(ExitCode::input_file, dataset.where(), "shape: found {}, expected ({})", to_string(shape), text);
    }
    StoredVariable stored{.path = dataset.path(),
                          .shape = shape,
                          .grid = std::vector<int>(file_.axes.size(), -1),
                          .index = Shape::filled(shape.size(), 0),
                          .packing = read_packing(dataset)};
    for (int d = 0; d < shape.size(); ++d)
      take_dimension(dataset, d, roles[static_cast<std::size_t>(d)], stored);
    const auto named = static_cast<Index>(variable.channels.size());
    const Index found = stored.component >= 0 ? shape[stored.component] : 1;
    if (named > 0 && found != named) {
      fail(ExitCode::input_file, dataset.where(), "channels: found {}, expected {} as named", found, named);
    }
    file_.variables.push_back(std::move(stored));
    file_.units.push_back(variable.unit.empty() ? dataset.text("units").value_or("") : variable.unit);
  }

  void take_dimension(const Dataset& dataset, int d, const std::string& role, StoredVariable& stored) {
    const Index extent = dataset.shape()[d];
    if (extent < 1) fail(ExitCode::input_file, dataset.where(), "dimension '{}' is empty", role);
    if (extent > kMostExtent) {
      fail(ExitCode::input_file, dataset.where(), "dimension '{}': found {} indices, expected at most {}",
           role, extent, kMostExtent);
    }
    if (role == "sample") {
      claim(stored.sample, d, role);
      agree(dataset, role, file_.samples, extent);
    } else if (role == "time") {
      claim(stored.time, d, role);
      agree(dataset, role, file_.steps, extent);
      if (time_scale_.empty()) time_scale_ = dataset.scale_path(d);
    } else if (role == "channel") {
      claim(stored.component, d, role);
      stored.component_dims = 1;
    } else if (is_axis(role)) {
      take_axis(dataset, d, role, stored);
    } else {
      stored.index[d] = fixed_index(role);
      if (stored.index[d] >= extent) {
        fail(ExitCode::input_file, dataset.where(),
             "dimension {}: found extent {}, expected one with index {}", d, extent, stored.index[d]);
      }
    }
  }

  void take_axis(const Dataset& dataset, int d, const std::string& role, StoredVariable& stored) {
    std::size_t a = 0;
    while (file_.axes[a].name != role) ++a;
    claim(stored.grid[a], d, role);
    GridAxis& axis = file_.axes[a];
    Index known = axis.coordinates.empty() ? -1 : static_cast<Index>(axis.coordinates.size());
    agree(dataset, role, known, dataset.shape()[d]);
    if (axis.coordinates.empty()) read_axis(axis, dataset.scale_path(d), known);
  }

  void claim(int& slot, int d, const std::string& role) {
    if (slot >= 0) fail(ExitCode::usage, kDeck, "dimensions {} and {} are both '{}'", slot, d, role);
    slot = d;
  }

  void agree(const Dataset& dataset, const std::string& role, Index& known, Index found) {
    if (known >= 0 && known != found) {
      fail(ExitCode::input_file, dataset.where(),
           "dimension '{}': found {}, expected {} as in the other variables", role, found, known);
    }
    known = found;
  }

  void read_axis(GridAxis& axis, const std::string& scale, Index extent) {
    const auto named = spec_.coordinates.find(axis.name);
    const bool is_named = named != spec_.coordinates.end();
    if (is_named || has_values(root_, scale)) {
      const Dataset dataset = root_.dataset(is_named ? named->second : scale);
      axis.coordinates = read_line(dataset, extent);
      axis.unit = dataset.text("units").value_or("");
    } else {
      axis.coordinates.resize(static_cast<std::size_t>(extent));
      std::iota(axis.coordinates.begin(), axis.coordinates.end(), 0.0);
    }
    const auto edge = spec_.edges.find(axis.name);
    if (edge != spec_.edges.end()) axis.edges = {edge->second, edge->second};
  }

  void finish() {
    for (const GridAxis& axis : file_.axes) {
      if (axis.coordinates.empty()) fail(ExitCode::usage, kDeck, "no variable has the axis '{}'", axis.name);
    }
    if (spec_.time.empty() && !has_values(root_, time_scale_)) return;
    const Dataset dataset = root_.dataset(spec_.time.empty() ? time_scale_ : spec_.time);
    file_.times = read_line(dataset, std::max<Index>(file_.steps, 1));
    file_.time_unit = dataset.text("units").value_or("");
  }

  const GenericSourceSpec& spec_;
  Group root_;
  std::string time_scale_;
  GenericFile file_;
};

}  // namespace

std::vector<std::string> generic_axes(const GenericSourceSpec& spec) {
  if (spec.variables.empty()) fail(ExitCode::usage, kDeck, "no variables");
  std::vector<std::string> axes;
  auto add = [&](const std::vector<std::string>& roles) {
    for (const std::string& role : roles) {
      if (is_axis(role) && std::find(axes.begin(), axes.end(), role) == axes.end()) axes.push_back(role);
    }
  };
  add(spec.dims);
  for (const GenericVariable& variable : spec.variables) add(variable.dims);
  if (axes.empty() || axes.size() > 3) {
    fail(ExitCode::usage, kDeck, "grid axes: found {}, expected 1 to 3", axes.size());
  }
  for (const auto& [axis, edge] : spec.edges) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      fail(ExitCode::usage, kDeck, "edges: no axis '{}' in dims", axis);
    }
  }
  return axes;
}

GenericFile scan_generic_file(const GenericSourceSpec& spec, const std::vector<std::string>& axes,
                              const std::string& path) {
  const hdf5::File file = hdf5::File::open(path);
  return Scanner(spec, axes, file.root()).take();
}

}  // namespace tessera
