#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/run_lock.hpp"
#include "app/stop_control.hpp"
#include "io/deck/deck.hpp"
#include "io/fields/field_set.hpp"
#include "parallel/layout.hpp"

namespace tessera {

/// What the user typed after `tessera`.
struct CommandLine {
  std::string command;                 ///< "train", "post compare"
  std::string deck_path;               ///< of commands that read a deck
  std::vector<std::string> files;      ///< of `post` commands
  std::vector<std::string> overrides;  ///< key.path=value
  std::optional<std::string> restart;  ///< -r latest | <step> | <path>
  std::string folder;                  ///< -d; empty: runs/<deck name>
  std::optional<double> walltime;      ///< -t, seconds
  bool dry_run = false;                ///< -n
  std::optional<int> ranks;            ///< of plan: --ranks
  bool force = false;                  ///< write into a folder that is not empty
  bool quiet = false;
  bool verbose = false;
  bool comm_stats = false;  ///< print communication by operator at the end
  bool profile = false;     ///< print the time of operators at the end
};

/// What `-r` continues from.
enum class Resume : std::uint8_t {
  checkpoint,  ///< one of the run's checkpoints
  folder,      ///< the files that the run folder holds already; `-r latest` only
};

/// One run of a command: its deck, its folder, who takes part. Made by every rank alike; rank 0 touches the
/// folder.
class Run {
 public:
  /// Reads the deck (on a restart: the checkpoint's or run folder's resolved deck, then the deck, then the
  /// overrides). Collective. Throws (usage, input_file), the same on every rank.
  Run(CommPtr world, CommandLine line, const Schema& schema, Resume resume = Resume::checkpoint);

  const CommPtr& world() const { return world_; }
  const CommandLine& line() const { return line_; }
  const Deck& deck() const { return deck_; }
  bool is_root() const { return world_->rank() == 0; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  bool is_restart() const { return line_.restart.has_value(); }
  /// The checkpoint folder that `-r` names; nothing without `-r`, with Resume::folder, and for `-r latest` of
  /// a run that has no checkpoint yet, so that a job script may always say `-r latest`.
  const std::optional<std::filesystem::path>& restart_from() const { return restart_from_; }

  /// Creates the folder, locks it for as long as this object lives, and writes `resolved.yaml` into it.
  /// Refuses a folder in which another run works, and one that is not empty unless forced or continuing the
  /// run in it. Collective. Throws (usage).
  void open_folder();
  /// Deck as given, overrides, resolved deck, version, git hash, mesh, partition (of `grid`, unless it is
  /// undefined), hosts. Collective.
  Provenance provenance(const Mesh& mesh, const Layout& grid) const;
  /// Prints a line on rank 0 unless quiet.
  void say(const std::string& text) const;

 private:
  CommPtr world_;
  CommandLine line_;
  std::filesystem::path folder_;
  std::unique_ptr<RunLock>
      lock_;  ///< on rank 0; before a checkpoint is chosen, which a run at work would outdate
  std::optional<std::filesystem::path> restart_from_;
  DeckText given_;
  Deck deck_;
};

/// Deletes `<stem><number>.hdf5` and `.xdmf` of an earlier run of the same command, which readers of the
/// folder would take for this one's; other files stay. On one rank.
void remove_numbered_outputs(const std::filesystem::path& folder, std::string_view stem);

}  // namespace tessera
