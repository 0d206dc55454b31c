#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "parallel/inline_vector.hpp"

namespace tessera {

inline constexpr const char* kManifestFormat = "tessera-checkpoint";
inline constexpr int kManifestVersion = 1;

/// "step_00000100", "shard_00003.bin".
std::string checkpoint_name(Index step);
std::string shard_name(std::size_t rank);
/// The step of a folder's name; nothing if it is no checkpoint's name.
std::optional<Index> step_of_name(const std::string& name);

/// Writes `content` with its checksum as manifest.json of the folder.
void write_manifest(const std::filesystem::path& folder, const nlohmann::json& content);
/// Throws Error(input_file) where the manifest is missing, damaged or of another format.
nlohmann::json read_manifest(const std::filesystem::path& folder);

}  // namespace tessera
