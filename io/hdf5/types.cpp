#include "io/hdf5/types.hpp"

#include <hdf5.h>

#include "parallel/error.hpp"

namespace tessera::hdf5 {

Handle make_string_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

Handle make_bool_type() {
  Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  std::int8_t value = 0;
  H5Tenum_insert(type.get(), "FALSE", &value);
  value = 1;
  H5Tenum_insert(type.get(), "TRUE", &value);
  return type;
}

Handle make_file_type(Element element) {
  switch (element) {
    case Element::f32:
      return Handle(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
    case Element::f64:
      return Handle(H5Tcopy(H5T_IEEE_F64LE), H5Tclose);
    case Element::integer:
      return Handle(H5Tcopy(H5T_STD_I64LE), H5Tclose);
    case Element::boolean:
      return make_bool_type();
    case Element::text:
      return make_string_type();
    default:
      fail(ExitCode::internal, "hdf5", "no file type for elements of kind '{}'", name_of(element));
  }
}

Element element_of_type(Id type) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return H5Tget_size(type) <= 4 ? Element::f32 : Element::f64;
    case H5T_INTEGER:
      return Element::integer;
    case H5T_ENUM:
      return Element::boolean;
    case H5T_STRING:
      return Element::text;
    default:
      return Element::other;
  }
}

const char* name_of(Element element) {
  constexpr const char* names[] = {"f32", "f64", "integer", "boolean", "text", "other"};
  return names[static_cast<int>(element)];
}

}  // namespace tessera::hdf5
