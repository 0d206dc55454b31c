#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/checkpoint/checkpoint.hpp"
#include "solver/nn/module.hpp"

namespace tessera {

/// Writes tensors as a checkpoint of `step` below `root`: each rank its box of a sharded tensor, plain ones
/// once. Collective.
std::filesystem::path save_tensors(Communicator& comm, const std::filesystem::path& root, Index step,
                                   const std::string& state, const std::vector<NamedTensor>& tensors);

/// Reads every tensor's local part from a checkpoint that was written on any mesh. Throws Error(input_file)
/// naming a tensor that is missing or does not fit.
void load_tensors(const Checkpoint& checkpoint, const std::vector<NamedTensor>& tensors);

/// Reads parameters from a safetensors file (any mesh), or writes them; the latter collective.
void import_safetensors(const std::string& path, const std::vector<NamedTensor>& parameters);
void export_safetensors(const CommPtr& comm, const std::string& path,
                        const std::vector<NamedTensor>& parameters);

}  // namespace tessera
