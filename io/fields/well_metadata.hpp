#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/fields/field_set.hpp"
#include "io/hdf5/file.hpp"

namespace tessera {

/// Where the dimensions of a field lie in its dataset; -1 for one that the dataset does not have or keeps at size 1.
struct WellField {
  std::string path;
  std::string name;
  std::string unit;
  int order = 0;
  int sample = -1;
  int time = -1;
  std::vector<int> grid;   ///< dataset dimension of each grid axis
  int component = -1;      ///< first of the trailing component dimensions
  Shape shape;             ///< of the dataset
  int components = 1;
  int extent = 1;          ///< components along one index: D

  bool operator==(const WellField&) const = default;
};

/// What one file of The Well holds.
struct WellFile {
  std::string name;
  std::string time_unit;
  std::vector<GridAxis> axes;
  std::vector<WellField> fields;
  std::vector<Trajectory> trajectories;
};

/// Reads and checks everything but the fields' values; throws Error(input_file).
WellFile read_well_file(const std::string& path);

}  // namespace tessera
