#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "io/hdf5/file_state.hpp"

namespace tessera::hdf5 {

/// HDF5's collective calls wait for all ranks without a limit. While a Watch of a parallel file lives, such a
/// call that takes longer than default_timeout() ends the program (exit code 5) with a message that
/// names the ranks which no longer answer. Does nothing for a file of one process.
class Watch {
 public:
  Watch(const FileState& file, std::string operation);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

 private:
  void guard();

  CommPtr comm_;
  std::string path_, operation_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

/// After a failed collective call that writes: throws Error(input_file) if it failed on every rank. Where it
/// did not, the others may wait inside HDF5 for this one without a limit: prints the error, removes the
/// unfinished file and ends the program.
[[noreturn]] void fail_write(const FileState& file, const std::string& where, const std::string& what);

}  // namespace tessera::hdf5
