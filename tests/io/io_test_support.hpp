#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "parallel/box.hpp"
#include "parallel/error.hpp"
#include "parallel/partition.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {

/// A folder that all ranks share, removed at the end.
class SharedFolder {
 public:
  SharedFolder() {
    std::string name(256, '\0');
    if (world()->rank() == 0) {
      std::string pattern = (std::filesystem::temp_directory_path() / "tessera_io_XXXXXX").string();
      name = mkdtemp(pattern.data());
    }
    path_ = world()->broadcast_text(name);
  }
  ~SharedFolder() {
    world()->barrier();
    std::error_code ec;
    if (world()->rank() == 0) std::filesystem::remove_all(path_, ec);
  }

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Runs `body` on one rank while the others wait.
inline void on_root(const std::function<void()>& body) {
  if (world()->rank() == 0) body();
  world()->barrier();
}

/// The text of the Error that `body` throws; fails where it throws none or one of another code.
inline std::string error_text(const std::function<void()>& body, ExitCode code = ExitCode::input_file) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error thrown";
  return "";
}

inline bool has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  ADD_FAILURE() << "'" << text << "' does not contain '" << part << "'";
  return false;
}

/// This rank's box of a grid cut unevenly along its first axis; with three ranks or more the second one is
/// empty.
inline Box uneven_box(const Shape& grid) {
  const int size = world()->size();
  std::vector<double> weights(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) weights[static_cast<std::size_t>(r)] = size >= 3 && r == 1 ? 0 : r + 1;
  Box box = Box::whole(grid);
  box[0] = Partition::from_weights(grid[0], weights).range(world()->rank());
  return box;
}

}  // namespace tessera::testing
