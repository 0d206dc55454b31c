#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "app/post_info.hpp"
#include "app/text_table.hpp"
#include "app/value_figures.hpp"
#include "io/fields/slab.hpp"
#include "io/hdf5/file.hpp"
#include "parallel/units.hpp"

namespace tessera {
namespace {

constexpr Index kStripValues = Index{1} << 20;      // read at once
constexpr Index kMostRangeValues = Index{1} << 27;  // of a dataset whose range is found

/// The finite values of a dataset of numbers, unpacked; nothing where it is too large to read or has no
/// numbers.
ValueFigures dataset_range(const hdf5::Dataset& dataset) {
  using hdf5::Element;
  ValueFigures range;
  const bool numbers = dataset.element() == Element::f32 || dataset.element() == Element::f64 ||
                       dataset.element() == Element::integer;
  const Index total = count(dataset.shape());
  if (!numbers || total == 0 || total > kMostRangeValues) return range;
  const Packing packing = read_packing(dataset);
  Box box = Box::whole(dataset.shape());
  const Index rows = box.empty() ? 1 : box[0].hi;
  const Index strip = std::max<Index>(kStripValues / std::max<Index>(total / rows, 1), 1);
  std::vector<double> values;
  for (Index first = 0; first < rows; first += strip) {
    if (!box.empty()) box[0] = {first, std::min(first + strip, rows)};
    values.resize(static_cast<std::size_t>(box.volume()));
    dataset.read(box, values.data(), hdf5::Transfer::independent);
    for (double& v : values) {
      const bool missing =
          std::find(packing.missing.begin(), packing.missing.end(), v) != packing.missing.end();
      v = missing ? NAN : v * packing.scale + packing.offset;
    }
    std::vector<ValueFigures> one{range};
    add_values(one, values);
    range = one.front();
  }
  return range;
}

void add_datasets(const hdf5::Group& group, bool ranges, TextTable& table) {
  for (const std::string& name : group.members()) {
    if (group.has_group(name)) {
      add_datasets(group.group(name), ranges, table);
    } else if (group.has_dataset(name)) {
      const hdf5::Dataset dataset = group.dataset(name);
      std::string shape = "(";
      for (int d = 0; d < dataset.shape().size(); ++d) {
        const std::string scale = dataset.scale_path(d);
        const bool named = !scale.empty() && scale != dataset.path();
        shape += (d ? ", " : "") + (named ? scale.substr(scale.find_last_of('/') + 1) + " " : std::string()) +
                 std::to_string(dataset.shape()[d]);
      }
      std::string unit;
      if (dataset.has_attribute("units")) unit = dataset.text("units").value_or("");
      std::vector<std::string> cells{dataset.path(), hdf5::name_of(dataset.element()), shape + ")",
                                     or_dash(unit)};
      if (ranges) {
        const std::vector<std::string> figures = figure_cells(dataset_range(dataset));
        cells.insert(cells.end(), {figures[0], figures[1], figures[2], figures[4]});
      }
      table.row(cells);
    }
  }
}

}  // namespace

std::string datasets_info(const std::string& path, const InfoOptions& options) {
  const hdf5::File file = hdf5::File::open(path);
  std::string text = fmt::format("{}: HDF5 or NetCDF-4, {}\n", path,
                                 bytes_text(static_cast<double>(std::filesystem::file_size(path))));
  TextTable table(4);
  std::vector<std::string> head{"dataset", "type", "shape", "unit"};
  if (options.steps != 0) head.insert(head.end(), {"least", "mean", "greatest", "missing"});
  table.row(head);
  add_datasets(file.root(), options.steps != 0, table);
  text += table.text();
  TextTable attributes;
  for (const std::string& name : file.root().attribute_names()) {
    if (name.starts_with("_")) continue;
    try {
      if (file.root().attribute_is_number(name)) {
        if (const auto number = file.root().number(name))
          attributes.row({name, fmt::format("{:.6g}", *number)});
      } else if (const auto value = file.root().text(name)) {
        attributes.row({name, *value});
      }
    } catch (const Error&) {
      attributes.row({name, "(a list)"});
    }
  }
  const std::string rows = attributes.text();
  return text + (rows.empty() ? "" : "\n") + rows;
}

}  // namespace tessera
