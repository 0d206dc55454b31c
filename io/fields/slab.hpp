#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/fields/field_source.hpp"
#include "io/hdf5/file.hpp"

namespace tessera {

/// How stored numbers become values (NetCDF's attributes): value = stored * scale + offset; stored numbers
/// equal to one of `missing` are missing.
struct Packing {
  double scale = 1;
  double offset = 0;
  std::vector<double> missing;

  bool is_plain() const { return scale == 1 && offset == 0; }
};

/// scale_factor, add_offset, _FillValue, missing_value of a dataset.
Packing read_packing(const hdf5::Dataset& dataset);

/// One transfer: the part `source` of a dataset goes to a strided place in a buffer.
struct SlabRead {
  Box source;          ///< in the dataset's index space; empty: this rank takes part only
  Shape extents;       ///< of the loop over the values: (box..., components)
  Shape from_strides;  ///< of that loop in the contiguous slab; 0 repeats a value
  Shape to_strides;    ///< of that loop in the result
  Index skip = 0;      ///< elements of the slab before the first value
  Packing packing;
  BadValuePolicy policy;
};

/// Reads, converts and checks one slab. Throws Error(input_file) with the dataset's index of the first bad
/// value.
template <typename T>
void read_slab(const hdf5::Dataset& dataset, const SlabRead& slab, T* to);

}  // namespace tessera
