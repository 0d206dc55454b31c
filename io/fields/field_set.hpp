#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/inline_vector.hpp"

namespace tessera {

/// What lies beyond an end of a grid axis, with The Well's codes.
enum class EdgeKind : std::uint8_t { wall = 0, open = 1, periodic = 2 };

/// "wall", "open", "periodic" (any case); throws Error(input_file) for another word.
EdgeKind parse_edge_kind(std::string_view text, const std::string& where);
std::string_view name_of(EdgeKind kind);

/// One axis of the grid, in the order of the data.
struct GridAxis {
  std::string name;
  std::string unit;
  std::vector<double> coordinates;  ///< one per grid point
  std::array<EdgeKind, 2> edges{EdgeKind::open, EdgeKind::open};
};

/// One number per grid point: a scalar field or a component of a vector or tensor field.
struct Channel {
  std::string name;   ///< "height", "velocity_x", "stress_xy"
  std::string unit;   ///< "" if the file names none
  std::string field;  ///< the field it is a component of
  int component = 0;
  bool time_varying = true;
  int order = 0;  ///< of the field: 0 scalar, 1 vector, 2 tensor
};

/// One run of the simulation or observation: its steps follow each other in time.
struct Trajectory {
  Index steps = 0;
  std::shared_ptr<const std::vector<double>> times;  ///< one per step
  std::map<std::string, double> parameters;          ///< constant scalars of the file that holds it
  std::string file;
};

/// What a data set on disk holds.
struct FieldSet {
  std::string name;
  std::string time_unit;
  std::vector<GridAxis> axes;
  std::vector<Channel> channels;
  std::vector<Trajectory> trajectories;

  /// Extents of the grid.
  Shape grid() const;
  /// Position of a channel; throws Error(input_file) with the nearest name if there is none.
  int channel(std::string_view channel_name) const;
};

/// Names of the components of a field: order 0 is the field itself, order 1 and 2 carry the axes' names
/// ("velocity_x", "stress_xy") where there is one component per axis, else numbers.
std::vector<std::string> component_names(const std::string& field, int order, int extent,
                                         const std::vector<std::string>& axes);

/// Texts that say where a file comes from, kept as attributes of its group `/provenance`: deck, overrides,
/// resolved_deck, version, git_hash, mesh, partition, hosts.
using Provenance = std::map<std::string, std::string>;

}  // namespace tessera
