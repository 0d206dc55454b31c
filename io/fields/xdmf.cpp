#include "io/fields/xdmf.hpp"

#include <iterator>

#include <fmt/format.h>

namespace tessera {
namespace {

std::string joined(const Shape& values) {
  std::string text;
  for (int d = 0; d < values.size(); ++d) text += (d ? " " : "") + std::to_string(values[d]);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

struct Writer {
  const std::string& file;
  const FieldSet& fields;
  int precision;
  std::string text;

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  }

  std::string source(const std::string& path, const Shape& shape) {
    return fmt::format(
        R"(<DataItem Dimensions="{}" NumberType="Float" Precision="{}" Format="HDF">{}:{}</DataItem>)",
        joined(shape), precision, escaped(file), escaped(path));
  }

  void geometry() {
    const Shape grid = fields.grid();
    const bool flat = grid.size() == 2;
    line(R"(        <Topology TopologyType="{}" Dimensions="{}"/>)", flat ? "2DRectMesh" : "3DRectMesh",
         joined(grid));
    line(R"(        <Geometry GeometryType="{}">)", flat ? "VXVY" : "VXVYVZ");
    for (int d = grid.size() - 1; d >= 0; --d) {
      line("          {}", source("/dimensions/" + fields.axes[static_cast<std::size_t>(d)].name, {grid[d]}));
    }
    line("        </Geometry>");
  }

  // One component of one dataset at one step, cut out by a hyperslab.
  void attribute(const XdmfDataset& dataset, std::size_t component, Index trajectory, Index step) {
    const Shape grid = fields.grid();
    const int lead = dataset.time_varying ? 2 : 1;
    const int dims = dataset.shape.size();
    Shape start = Shape::filled(dims, 0), extent = Shape::filled(dims, 1);
    start[0] = trajectory;
    if (dataset.time_varying) start[1] = step;
    for (int d = 0; d < grid.size(); ++d) extent[lead + d] = grid[d];
    auto rest = static_cast<Index>(component);
    for (int d = dims - 1; d >= lead + grid.size(); --d) {
      start[d] = rest % dataset.shape[d];
      rest /= dataset.shape[d];
    }
    line(R"(        <Attribute Name="{}" AttributeType="Scalar" Center="Node">)",
         escaped(dataset.names[component]));
    line(R"(          <DataItem ItemType="HyperSlab" Dimensions="{}" Type="HyperSlab">)", joined(grid));
    line(R"(            <DataItem Dimensions="3 {}" Format="XML">{}  {}  {}</DataItem>)", dims, joined(start),
         joined(Shape::filled(dims, 1)), joined(extent));
    line("            {}", source(dataset.path, dataset.shape));
    line("          </DataItem>");
    line("        </Attribute>");
  }
};

}  // namespace

std::string xdmf_text(const std::string& hdf5_name, const FieldSet& fields,
                      const std::vector<XdmfDataset>& datasets, DType type) {
  if (fields.axes.size() < 2 || fields.axes.size() > 3) return "";
  Writer w{hdf5_name, fields, static_cast<int>(size_of(type)), {}};
  w.line(R"(<?xml version="1.0"?>)");
  w.line(R"(<Xdmf Version="3.0">)");
  w.line("  <Domain>");
  for (std::size_t b = 0; b < fields.trajectories.size(); ++b) {
    const Trajectory& trajectory = fields.trajectories[b];
    w.line(R"(    <Grid Name="trajectory_{:05}" GridType="Collection" CollectionType="Temporal">)", b);
    for (Index t = 0; t < trajectory.steps; ++t) {
      w.line(R"(      <Grid Name="step_{:05}" GridType="Uniform">)", t);
      w.line(R"(        <Time Value="{:.17g}"/>)", (*trajectory.times)[static_cast<std::size_t>(t)]);
      w.geometry();
      for (const XdmfDataset& dataset : datasets) {
        for (std::size_t c = 0; c < dataset.names.size(); ++c)
          w.attribute(dataset, c, static_cast<Index>(b), t);
      }
      w.line("      </Grid>");
    }
    w.line("    </Grid>");
  }
  w.line("  </Domain>");
  w.line("</Xdmf>");
  return w.text;
}

}  // namespace tessera
