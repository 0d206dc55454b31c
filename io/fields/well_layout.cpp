#include "io/fields/well_layout.hpp"

#include <algorithm>
#include <limits>

namespace tessera {
namespace {

using hdf5::Element;
using hdf5::Group;

Element element_of(const FieldFileSpec& spec) {
  return spec.type == DType::f64 ? Element::f64 : Element::f32;
}

std::vector<std::string> axis_names(const FieldFileSpec& spec) {
  std::vector<std::string> names;
  for (const GridAxis& axis : spec.axes) names.push_back(axis.name);
  return names;
}

void write_axes(Group& root, const FieldFileSpec& spec) {
  Group group = root.create_group("dimensions");
  group.set_texts("spatial_dims", axis_names(spec));
  for (const GridAxis& axis : spec.axes) {
    const Shape shape{static_cast<Index>(axis.coordinates.size())};
    hdf5::Dataset dataset = group.create_numbers(axis.name, shape, axis.coordinates, element_of(spec));
    dataset.set_flag("sample_varying", false);
    dataset.set_flag("time_varying", false);
    if (!axis.unit.empty()) dataset.set_text("units", axis.unit);
  }
}

// One group per axis and kind; its mask marks the ends of the axis that are of this kind.
void write_boundaries(Group& root, const FieldFileSpec& spec) {
  Group all = root.create_group("boundary_conditions");
  for (const GridAxis& axis : spec.axes) {
    for (const EdgeKind kind : {EdgeKind::wall, EdgeKind::open, EdgeKind::periodic}) {
      if (axis.edges[0] != kind && axis.edges[1] != kind) continue;
      std::string type(name_of(kind));
      Group group = all.create_group(axis.name + "_" + type);
      std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::toupper(c); });
      group.set_texts("associated_dims", std::vector{axis.name});
      group.set_texts("associated_fields", {});
      group.set_text("bc_type", type);
      group.set_flag("sample_varying", false);
      group.set_flag("time_varying", false);
      std::vector<bool> mask(axis.coordinates.size(), false);
      if (axis.edges[0] == kind) mask.front() = true;
      if (axis.edges[1] == kind) mask.back() = true;
      group.create_flags("mask", mask, {static_cast<Index>(mask.size())});
    }
  }
}

void write_scalars(Group& root, const FieldFileSpec& spec) {
  Group group = root.create_group("scalars");
  std::vector<std::string> names;
  for (const OutputScalar& scalar : spec.scalars) {
    names.push_back(scalar.name);
    const auto n = static_cast<Index>(scalar.values.size());
    require(n == 1 || n == spec.trajectories, "FieldWriter", "{} values of scalar '{}' for {} trajectories",
            n, scalar.name, spec.trajectories);
    const bool varies = n > 1;
    hdf5::Dataset dataset =
        group.create_numbers(scalar.name, varies ? Shape{n} : Shape{}, scalar.values, Element::f64);
    dataset.set_flag("sample_varying", varies);
    dataset.set_flag("time_varying", false);
    if (varies) {
      root.set_numbers(scalar.name, scalar.values);
    } else {
      root.set_number(scalar.name, scalar.values.front());
    }
  }
  group.set_texts("field_names", names);
  root.set_texts("simulation_parameters", names);
}

void write_field_groups(Group& root, const FieldFileSpec& spec) {
  for (int order = 0; order <= 2; ++order) {
    Group group = root.create_group(well_group(order));
    std::vector<std::string> names;
    for (const OutputField& field : spec.fields) {
      if (field.order == order) names.push_back(field.name);
    }
    group.set_texts("field_names", names);
  }
}

}  // namespace

std::string well_group(int order) {
  return "t" + std::to_string(order) + "_fields";
}

void write_well_header(Group& root, const FieldFileSpec& spec) {
  root.set_text("dataset_name", spec.dataset_name);
  root.set_text("grid_type", spec.grid_type);
  root.set_integer("n_spatial_dims", static_cast<Index>(spec.axes.size()));
  root.set_integer("n_trajectories", spec.trajectories);
  write_axes(root, spec);
  write_boundaries(root, spec);
  write_scalars(root, spec);
  write_field_groups(root, spec);
  Group provenance = root.create_group("provenance");
  for (const auto& [name, text] : spec.provenance) provenance.set_text(name, text);
}

void write_well_times(Group& root, const FieldFileSpec& spec, const std::vector<std::vector<double>>& times) {
  std::size_t steps = 0;
  bool shared = true;
  for (const auto& t : times) {
    steps = std::max(steps, t.size());
    shared = shared && t == times.front();
  }
  std::vector<double> values;
  for (std::size_t b = 0; b < (shared ? std::min<std::size_t>(times.size(), 1) : times.size()); ++b) {
    values.insert(values.end(), times[b].begin(), times[b].end());
    values.resize((b + 1) * steps, std::numeric_limits<double>::quiet_NaN());
  }
  const auto t = static_cast<Index>(steps);
  const Shape shape = shared ? Shape{t} : Shape{static_cast<Index>(times.size()), t};
  Group group = root.group("dimensions");
  hdf5::Dataset dataset = group.create_numbers("time", shape, values, element_of(spec));
  dataset.set_flag("sample_varying", !shared);
  dataset.set_flag("time_varying", true);
  if (!spec.time_unit.empty()) dataset.set_text("units", spec.time_unit);
  root.set_integer("n_trajectories", static_cast<Index>(times.size()));
}

}  // namespace tessera
