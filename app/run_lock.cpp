#include "app/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "parallel/error.hpp"

namespace tessera {
namespace {

/// Whether the open file is the one of that name, and not one that was removed while it was waited for.
bool is_named(int file, const std::filesystem::path& path) {
  struct stat opened = {}, named = {};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

std::string first_line(int file) {
  char text[512] = {};
  const auto size = pread(file, text, sizeof text - 1, 0);
  const std::string all(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  return all.substr(0, all.find('\n'));
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

RunLock::RunLock(const std::filesystem::path& folder) : path_(folder / kName) {
  while (true) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0) fail(ExitCode::usage, path_.string(), "cannot write the file: {}", std::strerror(errno));
    if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      const std::string owner = first_line(file_);
      if (reason != EWOULDBLOCK) {
        spdlog::warn("{}: no lock: {}; nothing keeps a second run out of this folder", path_.string(),
                     std::strerror(reason));
        return;
      }
      close(file_);
      fail(ExitCode::usage, folder.string(),
           "another run works in this folder ({}): wait for its end, or choose another folder with -d",
           owner.empty() ? "unknown process" : owner);
    }
    locked_ = is_named(file_, path_);
    if (locked_) break;
    close(file_);  // its last owner removed it meanwhile
  }
  const std::string owner = fmt::format("process {} on {}\n", getpid(), host_name());
  if (ftruncate(file_, 0) != 0 ||
      pwrite(file_, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
    const int reason = errno;
    close(file_);
    fail(ExitCode::usage, path_.string(), "cannot write the file: {}", std::strerror(reason));
  }
}

RunLock::~RunLock() {
  if (locked_) unlink(path_.c_str());  // while locked: nobody else can have taken it
  close(file_);
}

}  // namespace tessera
