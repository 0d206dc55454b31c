#include "tests/app/program.hpp"

#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace tessera::testing {
namespace fs = std::filesystem;
namespace {

constexpr int kMostSeconds = 60;

/// One rank runs without a launcher.
std::string launcher() {
  const std::string several = ranks() > 1 ? fmt::format("{} -n {} ", TESSERA_MPIEXEC, ranks()) : "";
  return fmt::format("timeout -k 5 {} {}{}", kMostSeconds, several, TESSERA_PROGRAM);
}

Launch run_shell(const fs::path& folder, const std::string& command) {
  const fs::path out = folder / ".out", err = folder / ".err";
  const std::string line =
      fmt::format("cd '{}' && {{ {} ; }} >'{}' 2>'{}'", folder.string(), command, out.string(), err.string());
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(line.c_str());
  Launch launch;
  launch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  launch.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  launch.out = read_file(out);
  launch.err = read_file(err);
  fs::remove(out);
  fs::remove(err);
  return launch;
}

}  // namespace

int Launch::messages() const {
  int count = 0;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) count += line.starts_with("tessera: ");
  return count;
}

int ranks() {
  const char* text = std::getenv("TESSERA_TEST_RANKS");
  return text ? std::atoi(text) : 1;
}

Launch tessera(const fs::path& folder, const std::string& arguments) {
  return run_shell(folder, launcher() + " " + arguments);
}

Launch tessera_signalled(const fs::path& folder, const std::string& arguments, const std::string& wait_for,
                         const std::string& signal) {
  // The child of `timeout` is the program, or the launcher whose children are the ranks.
  const std::string target = ranks() > 1 ? "$(pgrep -P $(pgrep -P $T) | tail -1)" : "$(pgrep -P $T)";
  return run_shell(folder,
                   fmt::format("{} {} & T=$!; for i in $(seq 300); do [ -e '{}' ] && break; sleep 0.1; "
                               "done; kill -{} {}; wait $T",
                               launcher(), arguments, wait_for, signal, target));
}

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("tessera_cli_np{}", ranks()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

int files_below(const fs::path& folder) {
  int count = 0;
  if (!fs::exists(folder)) return 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) count += entry.is_regular_file();
  return count;
}

bool has_partial_file(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().string().find(".partial") != std::string::npos) return true;
  }
  return false;
}

}  // namespace tessera::testing
