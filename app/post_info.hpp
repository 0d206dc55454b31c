#pragma once

#include <filesystem>
#include <string>

#include "parallel/communicator.hpp"

namespace tessera {

struct InfoOptions {
  Index steps = 64;  ///< read at most so many steps for the ranges; 0 none, -1 all
  bool all = false;  ///< every array and text in full
};

/// What a file or folder holds, as text for people; the same on every rank. Collective. Throws
/// Error(input_file) where it is missing or of no known kind.
std::string info_text(const std::string& path, const InfoOptions& options, const CommPtr& world);

/// Fields in The Well's layout: a file or a folder of files. Collective.
std::string fields_info(const std::string& path, const InfoOptions& options, const CommPtr& world);
/// Any other HDF5 or NetCDF-4 file: its datasets. On this rank alone.
std::string datasets_info(const std::string& path, const InfoOptions& options);
/// On this rank alone.
std::string checkpoint_info(const std::filesystem::path& folder, const InfoOptions& options);
std::string safetensors_info(const std::string& path, const InfoOptions& options);
std::string run_info(const std::filesystem::path& folder);
std::string history_info(const std::filesystem::path& path);

}  // namespace tessera
