#include <cmath>

#include <nlohmann/json.hpp>

#include "app/progress.hpp"
#include "io/atomic_file.hpp"
#include "parallel/error.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

/// The lines of steps up to `keep_steps`.
std::string kept_lines(const std::string& text, Index keep_steps) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string line = text.substr(begin, end - begin);
    const auto object = nlohmann::json::parse(line, nullptr, false);
    const bool complete = object.is_object() && object.contains("step") && object["step"].is_number_integer();
    if (complete && object["step"].get<Index>() <= keep_steps) kept += line + "\n";
    begin = end + 1;
  }
  return kept;
}

}  // namespace

History::History(fs::path path, bool write, Index keep_steps) : path_(std::move(path)) {
  if (!write) return;
  const bool keep = keep_steps > 0 && fs::exists(path_);
  write_text_atomically(path_, keep ? kept_lines(read_text(path_), keep_steps) : "");
  file_.open(path_, std::ios::app);
  if (!file_) fail(ExitCode::usage, path_.string(), "cannot write the file");
}

void History::append(Index step, const Values& values) {
  if (!file_.is_open()) return;
  nlohmann::ordered_json object;
  object["step"] = step;
  for (const auto& [name, value] : values) {
    if (std::isfinite(value)) {
      object[name] = value;
    } else {
      object[name] = nullptr;
    }
  }
  file_ << object.dump() << '\n' << std::flush;
  if (!file_) fail(ExitCode::internal, path_.string(), "cannot write the file: the disk may be full");
}

}  // namespace tessera
