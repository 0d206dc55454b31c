#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/box.hpp"
#include "parallel/communicator.hpp"
#include "parallel/dtype.hpp"

// A checkpoint is a folder
//     <root>/step_00000100/shard_00000.bin ...   what each rank owned: raw elements, one box after the other
//     <root>/step_00000100/manifest.json         step, state, and of every array its type, shape and boxes
//     with checksums
// It is written as step_00000100.partial and renamed when everything is on the disk, so a folder of the final
// name is complete. It loads on any number of ranks: a reader takes what it needs from the saved boxes that
// its own box meets.

namespace tessera {

/// This rank's part of an array, in host memory, contiguous, row-major.
struct SavedArray {
  std::string name;
  DType type = DType::f32;
  Shape shape;  ///< global
  Box box;      ///< may be empty
  const void* data = nullptr;
};

/// Writes a checkpoint; collective. The boxes of an array on different ranks are disjoint, or equal (a
/// replicated array, written once); together they must cover it. `state` is any JSON text: cursors, random
/// state, schedule. Replaces a checkpoint of the same step. On a failure (a full disk) all ranks throw and
/// nothing is left behind.
std::filesystem::path save_checkpoint(Communicator& comm, const std::filesystem::path& root, Index step,
                                      const std::string& state, std::span<const SavedArray> arrays);

/// A complete checkpoint on disk. Reading is independent: each rank reads what it needs.
class Checkpoint {
 public:
  struct Chunk {
    std::size_t shard = 0;
    std::uint64_t offset = 0;
    Box box;
    std::string checksum;
  };
  struct Array {
    DType type = DType::f32;
    Shape shape;
    std::vector<Chunk> chunks;
  };

  /// Reads and checks the manifest and the sizes of the shards; throws Error(input_file).
  explicit Checkpoint(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  Index step() const { return step_; }
  /// JSON text, as saved.
  const std::string& state() const { return state_; }
  const std::map<std::string, Array>& arrays() const { return arrays_; }
  bool has(const std::string& name) const { return arrays_.contains(name); }

  /// Fills `out` with `box` of an array that was saved with this type and shape. Throws Error(input_file)
  /// where there is no such array (with the nearest name), where type or shape differ (naming both), and
  /// where a checksum does not fit.
  void read(const std::string& name, DType type, const Shape& shape, const Box& box, void* out) const;
  /// Reads every box and compares its checksum; the ranks share the work. Collective.
  void verify(Communicator& comm) const;

 private:
  struct Shard {
    std::string file;
    std::uint64_t bytes = 0;
  };

  void read_chunk(const std::string& name, const Array& array, const Chunk& chunk, const Box& box,
                  char* out) const;

  std::filesystem::path folder_;
  Index step_ = 0;
  std::string state_;
  std::vector<Shard> shards_;
  std::map<std::string, Array> arrays_;
};

using WarningSink = std::function<void(const std::string&)>;

/// Folders named like checkpoints below `root`, newest step first; nothing is said about their content.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& root);

/// The newest checkpoint below `root` that is complete and undamaged (every checksum is compared);
/// collective. A damaged one is skipped with a warning, on rank 0.
std::optional<std::filesystem::path> latest_checkpoint(Communicator& comm, const std::filesystem::path& root,
                                                       const WarningSink& warn);

struct KeepPolicy {
  Index last = 3;   ///< keep the newest so many, at least one
  Index every = 0;  ///< keep those whose step is a multiple of this for good; 0 none
};

/// Deletes older checkpoints and what interrupted saves left; rank 0 works, collective, not while one is
/// being saved. Damaged folders are neither counted nor touched, so the last good one stays.
void prune_checkpoints(Communicator& comm, const std::filesystem::path& root, const KeepPolicy& keep);

/// Deletes the checkpoints of later steps: a run that goes on from `step` no longer leads to them, and the
/// newest would be taken for its own. Folders without a manifest are not touched. Collective.
void discard_later_checkpoints(Communicator& comm, const std::filesystem::path& root, Index step);

}  // namespace tessera
