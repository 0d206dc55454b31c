#pragma once

#include <filesystem>
#include <functional>

#include "parallel/box.hpp"
#include "parallel/communicator.hpp"

namespace tessera::bench {

/// Every rank of `group` writes its bytes `part` of one file in `folder` with plain system calls; then the
/// file is flushed to the disk. The file is removed with the last copy of the function. Throws (usage) where
/// it cannot be written. Collective, as is the function.
std::function<void()> plain_write(const CommPtr& group, Range part, const std::filesystem::path& folder);
/// The same for reading; the file is written here.
std::function<void()> plain_read(const CommPtr& group, Range part, const std::filesystem::path& folder);

/// Takes a file that has been flushed out of the system's cache (posix_fadvise DONTNEED), as far as the
/// system complies, before any rank goes on. Collective.
void drop_cache(Communicator& group, const std::filesystem::path& path);
/// Flushes a file to the disk once all ranks are here, before any goes on. Collective.
void flush_to_disk(Communicator& group, const std::filesystem::path& path);

/// Removes a file at the end of its life.
class FileRemover {
 public:
  explicit FileRemover(std::filesystem::path path) : path_(std::move(path)) {}
  FileRemover(const FileRemover&) = delete;
  FileRemover& operator=(const FileRemover&) = delete;
  ~FileRemover();

 private:
  std::filesystem::path path_;
};

}  // namespace tessera::bench
