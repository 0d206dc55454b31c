#include "io/hdf5/attributes.hpp"

#include <cmath>
#include <cstring>

#include <hdf5.h>

#include "io/hdf5/file_state.hpp"
#include "io/hdf5/types.hpp"

namespace tessera::hdf5 {
namespace {

// Longest list that any attribute of a sane file holds; guards allocations against damaged headers.
constexpr hssize_t kMaxAttributeElements = 1 << 24;

hssize_t elements_of(Id attribute, const std::string& where) {
  const Handle space(H5Aget_space(attribute), H5Sclose);
  const hssize_t n = H5Sget_simple_extent_npoints(space.get());
  if (n < 0 || n > kMaxAttributeElements) fail_hdf5(where, "attribute of impossible size");
  return n;
}

std::vector<std::string> read_strings(Id attribute, const std::string& where) {
  const auto n = static_cast<std::size_t>(elements_of(attribute, where));
  const Handle type(H5Aget_type(attribute), H5Tclose);
  std::vector<std::string> result;
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> pointers(n, nullptr);
    if (H5Aread(attribute, type.get(), pointers.data()) < 0) fail_hdf5(where, "cannot read attribute");
    for (char* p : pointers) result.emplace_back(p ? p : "");
    const Handle space(H5Aget_space(attribute), H5Sclose);
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, pointers.data());
    return result;
  }
  const std::size_t width = H5Tget_size(type.get());
  if (width > (std::size_t{1} << 30) / std::max<std::size_t>(n, 1)) {
    fail(ExitCode::input_file, where, "strings of {} bytes: attribute of impossible size", width);
  }
  std::string bytes(n * width, '\0');
  if (H5Aread(attribute, type.get(), bytes.data()) < 0) fail_hdf5(where, "cannot read attribute");
  for (std::size_t i = 0; i < n; ++i) {
    std::string value = bytes.substr(i * width, width);
    value.resize(std::strlen(value.c_str()));
    result.push_back(std::move(value));
  }
  return result;
}

H5T_class_t class_of(Id attribute) {
  const Handle type(H5Aget_type(attribute), H5Tclose);
  return H5Tget_class(type.get());
}

}  // namespace

Object::Object(std::shared_ptr<const FileState> file, Handle id, std::string path)
    : file_(std::move(file)),
      id_(std::move(id)),
      path_(std::move(path)),
      where_(file_->path + ": " + path_) {}

bool Object::has_attribute(const std::string& name) const {
  const Lock lock;
  return H5Aexists(id(), name.c_str()) > 0;
}

bool Object::attribute_is_number(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_attribute(name);
  if (!attribute) return false;
  const H5T_class_t kind = class_of(attribute.get());
  return kind == H5T_INTEGER || kind == H5T_FLOAT || kind == H5T_ENUM;
}

std::vector<std::string> Object::attribute_names() const {
  const Lock lock;
  std::vector<std::string> names;
  auto gather = [](hid_t, const char* name, const H5A_info_t*, void* client) -> herr_t {
    static_cast<std::vector<std::string>*>(client)->emplace_back(name);
    return 0;
  };
  if (H5Aiterate2(id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, gather, &names) < 0) {
    fail_hdf5(where_, "cannot list attributes");
  }
  return names;
}

Handle Object::open_attribute(const std::string& name) const {
  if (H5Aexists(id(), name.c_str()) <= 0) return {};
  Handle attribute(H5Aopen(id(), name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute) fail_hdf5(where_ + "@" + name, "cannot open attribute");
  return attribute;
}

std::optional<std::vector<std::string>> Object::texts(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_attribute(name);
  if (!attribute) return std::nullopt;
  const std::string where = where_ + "@" + name;
  if (elements_of(attribute.get(), where) == 0) return std::vector<std::string>{};
  if (class_of(attribute.get()) != H5T_STRING)
    fail(ExitCode::input_file, where, "type: found no string, expected text");
  return read_strings(attribute.get(), where);
}

std::optional<std::string> Object::text(const std::string& name) const {
  auto values = texts(name);
  if (!values) return std::nullopt;
  if (values->size() != 1) {
    fail(ExitCode::input_file, where_ + "@" + name, "number of strings: found {}, expected 1",
         values->size());
  }
  return std::move(values->front());
}

std::optional<std::vector<double>> Object::numbers(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_attribute(name);
  if (!attribute) return std::nullopt;
  const std::string where = where_ + "@" + name;
  std::vector<double> values(static_cast<std::size_t>(elements_of(attribute.get(), where)));
  if (values.empty()) return values;
  if (class_of(attribute.get()) == H5T_ENUM) {  // there is no conversion from an enum to a float
    std::vector<Index> flags(values.size());
    if (H5Aread(attribute.get(), H5T_NATIVE_INT64, flags.data()) < 0)
      fail_hdf5(where, "cannot read attribute");
    return std::vector<double>(flags.begin(), flags.end());
  }
  if (H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, values.data()) < 0) {
    fail_hdf5(where, "cannot read attribute as a number");
  }
  return values;
}

std::optional<double> Object::number(const std::string& name) const {
  const auto values = numbers(name);
  if (!values) return std::nullopt;
  if (values->size() != 1) {
    fail(ExitCode::input_file, where_ + "@" + name, "number of values: found {}, expected 1", values->size());
  }
  return values->front();
}

std::optional<Index> Object::integer(const std::string& name) const {
  const auto value = number(name);
  if (!value) return std::nullopt;
  if (std::abs(*value) > 9e15 || *value != std::floor(*value)) {
    fail(ExitCode::input_file, where_ + "@" + name, "value: found {}, expected an integer", *value);
  }
  return static_cast<Index>(*value);
}

std::optional<bool> Object::flag(const std::string& name) const {
  const auto value = number(name);
  if (!value) return std::nullopt;
  return *value != 0;
}

void Object::write_attribute(const std::string& name, Id type, const Index* extent, const void* data) {
  const std::string where = where_ + "@" + name;
  if (H5Aexists(id(), name.c_str()) > 0) H5Adelete(id(), name.c_str());
  Handle space;
  if (extent) {
    const auto n = static_cast<hsize_t>(*extent);
    space = Handle(H5Screate_simple(1, &n, nullptr), H5Sclose);
  } else {
    space = Handle(H5Screate(H5S_SCALAR), H5Sclose);
  }
  const Handle attribute(H5Acreate2(id(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  if (!attribute) fail_hdf5(where, "cannot create attribute");
  if (data && H5Awrite(attribute.get(), type, data) < 0) fail_hdf5(where, "cannot write attribute");
}

void Object::set_text(const std::string& name, const std::string& value) {
  const Lock lock;
  const char* pointer = value.c_str();
  write_attribute(name, make_string_type().get(), nullptr, &pointer);
}

void Object::set_texts(const std::string& name, std::span<const std::string> values) {
  const Lock lock;
  const auto n = static_cast<Index>(values.size());
  if (n == 0) return write_attribute(name, H5T_IEEE_F64LE, &n, nullptr);
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  write_attribute(name, make_string_type().get(), &n, pointers.data());
}

void Object::set_integer(const std::string& name, Index value) {
  const Lock lock;
  write_attribute(name, H5T_STD_I64LE, nullptr, &value);
}

void Object::set_number(const std::string& name, double value) {
  const Lock lock;
  write_attribute(name, H5T_IEEE_F64LE, nullptr, &value);
}

void Object::set_numbers(const std::string& name, std::span<const double> values) {
  const Lock lock;
  const auto n = static_cast<Index>(values.size());
  write_attribute(name, H5T_IEEE_F64LE, &n, n ? values.data() : nullptr);
}

void Object::set_flag(const std::string& name, bool value) {
  const Lock lock;
  const std::int8_t byte = value ? 1 : 0;
  write_attribute(name, make_bool_type().get(), nullptr, &byte);
}

void Object::set_flags(const std::string& name, const std::vector<bool>& values) {
  const Lock lock;
  const std::vector<std::int8_t> bytes(values.begin(), values.end());
  const auto n = static_cast<Index>(values.size());
  write_attribute(name, make_bool_type().get(), &n, n ? bytes.data() : nullptr);
}

}  // namespace tessera::hdf5
