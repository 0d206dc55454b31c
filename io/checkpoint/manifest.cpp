#include "io/checkpoint/manifest.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "io/atomic_file.hpp"
#include "io/checkpoint/checksum.hpp"

namespace tessera {
namespace fs = std::filesystem;
using nlohmann::json;

std::string checkpoint_name(Index step) {
  return fmt::format("step_{:08}", step);
}
std::string shard_name(std::size_t rank) {
  return fmt::format("shard_{:05}.bin", rank);
}

std::optional<Index> step_of_name(const std::string& name) {
  constexpr std::string_view prefix = "step_";
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string digits = name.substr(prefix.size());
  const bool valid =
      !digits.empty() && digits.size() <= 18 &&
      std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); });
  if (!valid) return std::nullopt;
  return std::stoll(digits);
}

void write_manifest(const fs::path& folder, const json& content) {
  const json whole{{"checksum", hex_text(checksum_of(content.dump()))}, {"content", content}};
  write_text_atomically(folder / "manifest.json", whole.dump() + "\n");
}

json read_manifest(const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  json whole = json::parse(read_text(file), nullptr, false);
  if (!whole.is_object() || !whole.contains("content") || !whole.contains("checksum")) {
    fail(ExitCode::input_file, file.string(), "damaged: not a checkpoint's manifest");
  }
  const std::string found = hex_text(checksum_of(whole["content"].dump()));
  if (whole["checksum"] != found) {
    fail(ExitCode::input_file, file.string(), "damaged: found checksum {}, expected {}", found,
         whole["checksum"].dump());
  }
  json content = std::move(whole["content"]);
  if (content["format"] != kManifestFormat || content["version"] != kManifestVersion) {
    fail(ExitCode::input_file, file.string(), "format: found {} version {}, expected {} version {}",
         content["format"].dump(), content["version"].dump(), kManifestFormat, kManifestVersion);
  }
  return content;
}

}  // namespace tessera
