#pragma once

#include <string>
#include <vector>

#include "io/fields/generic_source.hpp"
#include "io/fields/slab_source.hpp"

namespace tessera {

/// What one file says about the variables of a GenericSourceSpec.
struct GenericFile {
  Index samples = -1;  ///< -1: no dimension has this meaning
  Index steps = -1;
  std::vector<GridAxis> axes;
  std::vector<double> times;  ///< empty if the file has none
  std::string time_unit;
  std::vector<StoredVariable> variables;
  std::vector<std::string> units;  ///< of the variables
};

/// The grid's axes, in order; throws Error(usage) unless there are one to three.
std::vector<std::string> generic_axes(const GenericSourceSpec& spec);

/// Reads and checks everything but the values.
GenericFile scan_generic_file(const GenericSourceSpec& spec, const std::vector<std::string>& axes,
                              const std::string& path);

}  // namespace tessera
