#pragma once

#include <filesystem>
#include <functional>

#include "parallel/inline_vector.hpp"

namespace tessera::bench {

/// Writes a file of that many bytes in `folder` with plain system calls, then reads it; does nothing for 0.
/// The file is removed with the last copy of the function. Throws (usage) where it cannot be written.
std::function<void()> plain_file(Index bytes, const std::filesystem::path& folder);

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
