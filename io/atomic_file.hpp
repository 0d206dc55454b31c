#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

/// The name under which a file is written before it gets its final one.
std::filesystem::path partial_name(const std::filesystem::path& final_name);

/// Flushes a file's or folder's content to the disk.
void sync_to_disk(const std::filesystem::path& path);

/// Gives a completely written file (or folder) its final name, so that it survives a crash of the machine
/// from then on. A file of that name is replaced.
void publish(const std::filesystem::path& partial, const std::filesystem::path& final_name);

/// Writes a small text file so that its name never shows a half-written one.
void write_text_atomically(const std::filesystem::path& path, std::string_view text);

/// The whole of a small text file; throws Error(input_file) where it is missing or has more than `most`
/// bytes.
std::string read_text(const std::filesystem::path& path, std::size_t most = std::size_t{1} << 30);

}  // namespace tessera
