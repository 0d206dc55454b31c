#include "io/fields/well_metadata.hpp"

#include <algorithm>
#include <cmath>

#include "io/fields/well_layout.hpp"

namespace tessera {
namespace {

using hdf5::Dataset;
using hdf5::Group;

// One dimension that a field may have: its extent (-1 any), and whether the field varies along it.
struct Wanted {
  Index extent;
  bool varies;
};

// Assigns dataset dimensions to the wanted ones, in order: varying ones are there, others are dropped or of
// size 1. Empty if that is impossible.
std::vector<int> match(const std::vector<Wanted>& wanted, const Shape& shape, std::size_t i = 0, int d = 0) {
  if (i == wanted.size()) return d == shape.size() ? std::vector<int>(wanted.size(), -1) : std::vector<int>{};
  const Wanted& w = wanted[i];
  if (w.varies) {
    if (d == shape.size() || (w.extent >= 0 && shape[d] != w.extent)) return {};
    auto rest = match(wanted, shape, i + 1, d + 1);
    if (!rest.empty()) rest[i] = d;
    return rest;
  }
  if (d < shape.size() && shape[d] == 1) {
    if (auto rest = match(wanted, shape, i + 1, d + 1); !rest.empty()) return rest;
  }
  return match(wanted, shape, i + 1, d);
}

std::string expected_text(const std::vector<Wanted>& wanted) {
  std::string text = "(";
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string extent = wanted[i].extent < 0 ? "D" : std::to_string(wanted[i].extent);
    text += (i ? ", " : "") + (wanted[i].varies ? extent : "[1]");
  }
  return text + ")";
}

std::vector<double> first_row(const Dataset& dataset) {
  if (dataset.shape().size() == 0 || dataset.shape().size() > 2) dataset.expect_dims(1);
  std::vector<double> values = dataset.read_all<double>();
  values.resize(static_cast<std::size_t>(dataset.shape().back()));
  return values;
}

void read_axes(const Group& root, WellFile& out) {
  const Group group = root.group("dimensions");
  const auto names = group.texts("spatial_dims");
  if (!names || names->empty()) fail(ExitCode::input_file, group.where(), "no attribute 'spatial_dims'");
  if (names->size() > 3)
    fail(ExitCode::input_file, group.where(), "grid axes: found {}, expected 1 to 3", names->size());
  for (const std::string& name : *names) {
    const Dataset dataset = group.dataset(name);
    GridAxis axis{
        .name = name, .unit = dataset.text("units").value_or(""), .coordinates = first_row(dataset)};
    if (axis.coordinates.empty()) fail(ExitCode::input_file, dataset.where(), "the axis is empty");
    out.axes.push_back(std::move(axis));
  }
}

// The loader's rule: an end of an axis is of a kind where the first or last slice of the mask along the axis
// says so, for a wall everywhere, for the others anywhere. Ends start as open.
void read_boundary(const Group& group, WellFile& out) {
  const auto type = group.text("bc_type");
  const auto dims = group.texts("associated_dims");
  if (!type || !dims || !group.has_dataset("mask")) return;
  const EdgeKind kind = parse_edge_kind(*type, group.where());
  const Dataset mask = group.dataset("mask");
  if (mask.shape().size() != static_cast<int>(dims->size())) return;  // one that varies by sample or in time
  const auto values = mask.read_all<std::uint8_t>();
  for (std::size_t d = 0; d < dims->size(); ++d) {
    const auto axis = std::find_if(out.axes.begin(), out.axes.end(),
                                   [&](const GridAxis& a) { return a.name == (*dims)[d]; });
    if (axis == out.axes.end()) continue;
    const Index n = mask.shape()[static_cast<int>(d)];
    Index stride = 1;
    for (int e = static_cast<int>(d) + 1; e < mask.shape().size(); ++e) stride *= mask.shape()[e];
    for (int end = 0; end < 2; ++end) {
      bool all = true, any = false;
      for (Index i = 0; i < static_cast<Index>(values.size()); ++i) {
        if ((i / stride) % n != (end == 0 ? 0 : n - 1)) continue;
        const bool set = values[static_cast<std::size_t>(i)] != 0;
        all = all && set;
        any = any || set;
      }
      if (kind == EdgeKind::wall ? all : any) axis->edges[static_cast<std::size_t>(end)] = kind;
    }
  }
}

void read_boundaries(const Group& root, WellFile& out) {
  if (!root.has_group("boundary_conditions")) return;
  const Group all = root.group("boundary_conditions");
  for (const std::string& name : all.members()) {
    if (all.has_group(name)) read_boundary(all.group(name), out);
  }
}

// Times of every trajectory. Trailing NaNs, left by trajectories that ended early, are cut off.
void read_trajectories(const Group& root, const std::string& path, WellFile& out) {
  const auto n = root.integer("n_trajectories");
  constexpr Index most = Index{1} << 24;
  if (!n) fail(ExitCode::input_file, root.where(), "no attribute 'n_trajectories'");
  if (*n < 0 || *n > most) {
    fail(ExitCode::input_file, root.where(), "n_trajectories: found {}, expected 0 to {}", *n, most);
  }
  const Dataset dataset = root.dataset("dimensions/time");
  const bool each = dataset.shape().size() == 2;
  if (!each) dataset.expect_dims(1);
  if (each) dataset.expect_shape({*n, -1});
  out.time_unit = dataset.text("units").value_or("");
  const std::vector<double> all = dataset.read_all<double>();
  const auto steps = static_cast<std::size_t>(dataset.shape().back());
  for (Index b = 0; b < *n; ++b) {
    const auto first =
        all.begin() + static_cast<std::ptrdiff_t>(each ? static_cast<std::size_t>(b) * steps : 0);
    std::vector<double> times(first, first + static_cast<std::ptrdiff_t>(steps));
    while (!times.empty() && std::isnan(times.back())) times.pop_back();
    Trajectory trajectory{
        .steps = static_cast<Index>(times.size()), .times = {}, .parameters = {}, .file = path};
    if (!each && b > 0) {
      trajectory.times = out.trajectories.front().times;
    } else {
      trajectory.times = std::make_shared<const std::vector<double>>(std::move(times));
    }
    out.trajectories.push_back(std::move(trajectory));
  }
}

// Constant scalars; what varies in time is no parameter.
void read_parameters(const Group& root, WellFile& out) {
  if (!root.has_group("scalars")) return;
  const Group group = root.group("scalars");
  for (const std::string& name : group.members(true)) {
    const Dataset dataset = group.dataset(name);
    if (dataset.flag("time_varying").value_or(false)) continue;
    const Index n = count(dataset.shape());
    const auto trajectories = static_cast<Index>(out.trajectories.size());
    if (n != 1 && n < trajectories) continue;
    const auto values = dataset.read_all<double>();
    for (std::size_t b = 0; b < out.trajectories.size(); ++b) {
      out.trajectories[b].parameters[name] = n == 1 ? values[0] : values[b];
    }
  }
}

WellField read_field(const Group& group, const std::string& name, int order, Index steps,
                     const WellFile& file) {
  const Dataset dataset = group.dataset(name);
  std::vector<Wanted> wanted{
      {static_cast<Index>(file.trajectories.size()), dataset.flag("sample_varying").value_or(true)},
      {steps, dataset.flag("time_varying").value_or(true)}};
  const auto dims = dataset.numbers("dim_varying");
  for (std::size_t d = 0; d < file.axes.size(); ++d) {
    const bool varies = !dims || d >= dims->size() || (*dims)[d] != 0;
    wanted.push_back({static_cast<Index>(file.axes[d].coordinates.size()), varies});
  }
  auto with_components = [&](int trailing) {
    auto full = wanted;
    full.insert(full.end(), static_cast<std::size_t>(trailing), Wanted{-1, true});
    return full;
  };
  int trailing = order;
  std::vector<int> found = match(with_components(order), dataset.shape());
  if (found.empty() && order == 2) found = match(with_components(trailing = 1), dataset.shape());
  if (found.empty()) {
    fail(ExitCode::input_file, dataset.where(),
         "shape: found {}, expected {} (samples, steps, grid, components)", to_string(dataset.shape()),
         expected_text(with_components(order)));
  }
  StoredVariable stored{.path = dataset.path(),
                        .shape = dataset.shape(),
                        .sample = found[0],
                        .time = found[1],
                        .grid = {found.begin() + 2, found.end() - trailing},
                        .component = trailing ? found.back() - trailing + 1 : -1,
                        .component_dims = trailing,
                        .index = Shape::filled(dataset.shape().size(), 0),
                        .packing = {}};
  Index components = 1;
  for (int i = 0; i < trailing; ++i) components *= dataset.shape()[stored.component + i];
  const auto extent =
      order == 2 ? static_cast<Index>(std::lround(std::sqrt(static_cast<double>(components)))) : components;
  if (components < 1 || components > 81 || (order == 2 && extent * extent != components)) {
    fail(ExitCode::input_file, dataset.where(), "components: found {}, expected one per axis", components);
  }
  return {name, dataset.text("units").value_or(""), order, static_cast<int>(extent), std::move(stored)};
}

void read_fields(const Group& root, WellFile& out) {
  const Index steps = root.dataset("dimensions/time").shape().back();
  for (int order = 0; order <= 2; ++order) {
    if (!root.has_group(well_group(order))) continue;
    const Group group = root.group(well_group(order));
    const auto names = group.texts("field_names");
    for (const std::string& name : names ? *names : group.members(true)) {
      out.fields.push_back(read_field(group, name, order, steps, out));
    }
  }
  if (out.fields.empty()) {
    fail(ExitCode::input_file, root.where(),
         "no fields: expected datasets in t0_fields, t1_fields or t2_fields");
  }
}

}  // namespace

WellFile read_well_file(const std::string& path) {
  const hdf5::File file = hdf5::File::open(path);
  const Group root = file.root();
  WellFile out;
  out.name = root.text("dataset_name").value_or(path);
  read_axes(root, out);
  read_boundaries(root, out);
  read_trajectories(root, path, out);
  read_parameters(root, out);
  read_fields(root, out);
  return out;
}

}  // namespace tessera
