#pragma once

#include <string>
#include <vector>

#include "io/fields/field_source.hpp"

namespace tessera {

struct WellSourceSpec {
  /// HDF5 files, or folders whose *.hdf5, *.h5 and *.nc files are taken in name order.
  std::vector<std::string> paths;
  BadValuePolicy bad_values;
};

/// Opens a data set in The Well's layout (the files of one split). Trajectories are numbered through the
/// files in order; channels are the scalar fields in `field_names` order, then the vector fields' components,
/// then the tensor fields'. Tolerated: a bare string for a list of dimensions, missing attributes of axes,
/// dimensions along which nothing varies dropped or of size 1, tensors with one trailing D*D, trailing steps
/// whose time is NaN (they are not counted). Fields, grids and names must agree between the files. `comm`
/// null: independent reads; else collective (see FieldSource).
FieldSourcePtr open_well(const WellSourceSpec& spec, CommPtr comm = nullptr);

/// `paths` with folders replaced by their *.hdf5, *.h5 and *.nc files in name order; throws Error(input_file)
/// where there are none.
std::vector<std::string> list_hdf5_files(const std::vector<std::string>& paths);

}  // namespace tessera
