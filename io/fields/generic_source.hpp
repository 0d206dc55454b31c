#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/fields/field_source.hpp"

namespace tessera {

/// A dataset of a NetCDF-4 or plain HDF5 file that gives one channel, or several along a channel axis.
struct GenericVariable {
  std::string dataset;                ///< path, for example "UWND" or "/data/fields"
  std::vector<std::string> channels;  ///< names; empty: the dataset's name (numbered along a channel axis)
  std::string unit;                   ///< empty: the attribute `units`
  std::vector<std::string> dims;      ///< meaning of its dimensions; empty: the source's `dims`
};

/// The description of files that do not describe themselves. A dimension's meaning is one of
///   sample   independent trajectories        time     consecutive steps
///   channel  different quantities            =N       index N is taken, the others are never read
///   a name   a grid axis of that name, for example y
/// in any order. The grid's axes come in the order in which they stand in `dims`.
struct GenericSourceSpec {
  enum class Join : std::uint8_t {
    sample,  ///< each file adds its samples (one, if it has no sample dimension)
    time,    ///< each file continues the steps of the one before
  };

  std::vector<std::string>
      paths;  ///< files, or folders whose *.nc, *.h5 and *.hdf5 files are taken in name order
  Join join = Join::sample;
  std::vector<std::string> dims;
  std::vector<GenericVariable> variables;
  std::string time;  ///< dataset of the times; empty: the dimension scale, or step numbers
  std::map<std::string, std::string>
      coordinates;                        ///< axis -> dataset; else the dimension scale, or point numbers
  std::map<std::string, EdgeKind> edges;  ///< axis -> what lies beyond both ends; else open
  BadValuePolicy bad_values;
};

/// Opens such files; `_FillValue`, `missing_value`, `scale_factor` and `add_offset` are honoured. Throws
/// Error(input_file) where files, variables and extents do not fit together, Error(usage) where the
/// description itself cannot be right. `comm` null: independent reads; else collective (see FieldSource).
FieldSourcePtr open_generic(const GenericSourceSpec& spec, CommPtr comm = nullptr);

}  // namespace tessera
