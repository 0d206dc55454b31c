#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// Keeps other runs out of a run folder for as long as it lives. The system holds the lock and lets it go
/// when the process ends, however it ends; the file `run.lock` says who has it (process, host) and is removed
/// with the lock. One left behind by a killed run locks nothing.
class RunLock {
 public:
  static constexpr const char* kName = "run.lock";

  /// Throws (usage) where another run has the lock. Where the file system knows no locks, warns and goes on.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  int file_ = -1;
  bool locked_ = false;  ///< false where the file system has no locks
};

/// Name of this machine.
std::string host_name();

}  // namespace tessera
