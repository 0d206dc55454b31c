#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/hdf5/dataset.hpp"
#include "parallel/communicator.hpp"

namespace tessera::hdf5 {

class Group : public Object {
 public:
  using Object::Object;

  /// Names of the members, in name order; `datasets_only` leaves groups out.
  std::vector<std::string> members(bool datasets_only = false) const;
  /// Paths are relative to this group, or absolute.
  bool has_group(const std::string& name) const;
  bool has_dataset(const std::string& name) const;
  /// Throw Error(input_file), with the nearest name of the file, where there is none.
  Group group(const std::string& name) const;
  Dataset dataset(const std::string& name) const;

  /// Collective in a parallel file.
  Group create_group(const std::string& name);
  Dataset create_dataset(const std::string& name, const DatasetSpec& spec);
  /// A dataset of numbers whose values every rank knows: created, and written by one rank.
  Dataset create_numbers(const std::string& name, const Shape& shape, std::span<const double> values,
                         Element element = Element::f32);
  /// The same of shape (values.size()) and booleans.
  Dataset create_flags(const std::string& name, const std::vector<bool>& values, const Shape& shape);

 private:
  std::string absolute(const std::string& name) const;
};

/// An HDF5 file, open for reading (`open`) or just created (`create`). With a communicator of more than one
/// rank it is opened in parallel: opening, creating objects, writing attributes and closing are then
/// collective, and the file must be closed while MPI is alive. Whether the file can be read at all is found
/// out on rank 0 first, so that all ranks throw the same error: missing, not HDF5 (a classic NetCDF file is
/// recognised), truncated.
class File {
 public:
  /// `comm` null: this process alone.
  static File open(const std::string& path, Communicator* comm = nullptr);
  static File create(const std::string& path, Communicator* comm = nullptr);

  Group root() const;
  const std::string& path() const;
  /// True where more than one rank shares the file.
  bool parallel() const;
  /// Closes now, with every object of the file; throws where HDF5 could not write everything.
  void close();

 private:
  std::shared_ptr<FileState> state_;
};

/// True once a parallel file was left open because an exception unwound the stack. HDF5 closes such a file
/// collectively in MPI_Finalize, where it may wait for ever: end the program without it.
bool files_abandoned();
/// Makes that true: for a thread that is left behind inside HDF5.
void abandon_files();

}  // namespace tessera::hdf5
