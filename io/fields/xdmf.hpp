#pragma once

#include <string>
#include <vector>

#include "io/fields/field_set.hpp"
#include "parallel/dtype.hpp"

namespace tessera {

/// A dataset that an XDMF file refers to.
struct XdmfDataset {
  std::string path;  ///< inside the HDF5 file
  Shape shape;       ///< (trajectory, [step,] grid..., components...)
  bool time_varying = true;
  std::vector<std::string> names;  ///< of its components
};

/// XDMF 3 text for one HDF5 file: per trajectory a temporal collection of rectilinear grids, whose values are
/// hyperslabs of the HDF5 datasets and whose axes are `/dimensions/<axis>`. The last grid axis is XDMF's X,
/// as the data lie in memory. To be opened with ParaView's "XDMF Reader"; its "Xdmf3 Reader" knows no
/// hyperslabs.
/// "" for grids that are not 2-D or 3-D.
std::string xdmf_text(const std::string& hdf5_name, const FieldSet& fields,
                      const std::vector<XdmfDataset>& datasets, DType type);

}  // namespace tessera
