#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5/handle.hpp"
#include "parallel/inline_vector.hpp"

namespace tessera::hdf5 {

struct FileState;

/// A group or dataset: what has attributes. Reading returns nothing where the attribute is absent and throws
/// Error(input_file) where it has another type. Writing uses the types that h5py writes, and is collective in
/// a parallel file.
class Object {
 public:
  Object(std::shared_ptr<const FileState> file, Handle id, std::string path);

  Id id() const { return id_.get(); }
  /// Absolute path inside the file.
  const std::string& path() const { return path_; }
  /// "file.h5: /path", for error messages.
  const std::string& where() const { return where_; }

  bool has_attribute(const std::string& name) const;
  bool attribute_is_number(const std::string& name) const;
  std::vector<std::string> attribute_names() const;
  std::optional<std::string> text(const std::string& name) const;
  /// A list of strings, or a bare string as a list of one; an empty list of any type is an empty list.
  std::optional<std::vector<std::string>> texts(const std::string& name) const;
  /// One number of any integer, float or boolean type, scalar or of shape (1).
  std::optional<double> number(const std::string& name) const;
  std::optional<Index> integer(const std::string& name) const;
  std::optional<bool> flag(const std::string& name) const;
  /// All numbers of a 1-D or scalar attribute.
  std::optional<std::vector<double>> numbers(const std::string& name) const;

  void set_text(const std::string& name, const std::string& value);
  /// One-dimensional, variable-length UTF-8; an empty list is a float64 attribute of shape (0), as h5py
  /// writes it.
  void set_texts(const std::string& name, std::span<const std::string> values);
  void set_integer(const std::string& name, Index value);
  void set_number(const std::string& name, double value);
  void set_numbers(const std::string& name, std::span<const double> values);
  /// int8 enum {FALSE, TRUE}.
  void set_flag(const std::string& name, bool value);
  void set_flags(const std::string& name, const std::vector<bool>& values);

 protected:
  const std::shared_ptr<const FileState>& file() const { return file_; }

 private:
  Handle open_attribute(const std::string& name) const;
  void write_attribute(const std::string& name, Id type, const Index* extent, const void* data);

  std::shared_ptr<const FileState> file_;
  Handle id_;
  std::string path_;
  std::string where_;
};

}  // namespace tessera::hdf5
