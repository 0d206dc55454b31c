#pragma once

#include <string>

#include "io/hdf5/handle.hpp"
#include "parallel/communicator.hpp"

namespace tessera::hdf5 {

/// What an open file's objects share. Closing a parallel file is collective, so a file that dies while an
/// exception unwinds the stack (perhaps on this rank only) is not closed but left to the end of the program.
struct FileState {
  FileState(std::string file_path, bool is_parallel) : path(std::move(file_path)), parallel(is_parallel) {}
  FileState(const FileState&) = delete;
  FileState& operator=(const FileState&) = delete;
  ~FileState();

  std::string path;
  bool parallel = false;
  CommPtr watch;  ///< its ranks, for Watch; null for a file of one process
  Handle id;
};

}  // namespace tessera::hdf5
