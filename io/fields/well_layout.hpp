#pragma once

#include <string>
#include <vector>

#include "io/fields/field_writer.hpp"
#include "io/hdf5/file.hpp"

namespace tessera {

/// "t0_fields", "t1_fields", "t2_fields".
std::string well_group(int order);

/// The parts of The Well's layout that are known before the first step: root attributes, axes, boundary
/// conditions, scalars, provenance and the three field groups with their attributes. Collective in a parallel
/// file.
void write_well_header(hdf5::Group& root, const FieldFileSpec& spec);

/// What is known only at the end: the number of trajectories and the times, (T) where all trajectories agree,
/// else (B, T) filled up with NaN.
void write_well_times(hdf5::Group& root, const FieldFileSpec& spec,
                      const std::vector<std::vector<double>>& times);

}  // namespace tessera
