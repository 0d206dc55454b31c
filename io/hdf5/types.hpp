#pragma once

#include "io/hdf5/handle.hpp"

namespace tessera::hdf5 {

/// Element types of datasets in files.
enum class Element { f32, f64, integer, boolean, text, other };

/// Variable-length UTF-8, h5py's str.
Handle make_string_type();
/// int8 enum {FALSE, TRUE}, h5py's bool.
Handle make_bool_type();
/// The type in which `element` is stored (f32, f64, integer as int64, boolean, text).
Handle make_file_type(Element element);
Element element_of_type(Id type);
const char* name_of(Element element);

}  // namespace tessera::hdf5
