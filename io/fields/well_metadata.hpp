#pragma once

#include <string>
#include <vector>

#include "io/fields/field_set.hpp"
#include "io/fields/slab_source.hpp"

namespace tessera {

/// One field of a file.
struct WellField {
  std::string name;
  std::string unit;
  int order = 0;   ///< 0 scalar, 1 vector, 2 tensor
  int extent = 1;  ///< components along one index: D
  StoredVariable stored;
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
