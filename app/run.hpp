#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/deck/deck.hpp"
#include "io/fields/field_set.hpp"
#include "parallel/layout.hpp"

namespace tessera {

/// What the user typed after `tessera <command>`.
struct CommandLine {
  std::string command;
  std::string deck_path;
  std::vector<std::string> overrides;  ///< key.path=value
  std::optional<std::string> restart;  ///< -r latest | <step> | <path>
  std::string folder;                  ///< -d; empty: runs/<deck name>
  std::optional<double> walltime;      ///< -t, seconds
  bool dry_run = false;                ///< -n
  bool force = false;                  ///< write into a folder that is not empty
  bool quiet = false;
  bool verbose = false;
  bool comm_stats = false;  ///< print communication by operator at the end
};

/// One run of a command: its deck, its folder, who takes part. Made by every rank alike; rank 0 touches the
/// folder.
class Run {
 public:
  /// Reads the deck (on a restart: the checkpoint's resolved deck, then the deck, then the overrides). Throws
  /// (usage, input_file).
  Run(CommPtr world, CommandLine line, const Schema& schema);

  const CommPtr& world() const { return world_; }
  const CommandLine& line() const { return line_; }
  const Deck& deck() const { return deck_; }
  bool is_root() const { return world_->rank() == 0; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  /// The checkpoint folder that `-r` names; nothing without `-r`. Throws (input_file) where there is none.
  std::optional<std::filesystem::path> restart_from() const;

  /// Creates the folder and writes `resolved.yaml` into it. Refuses a folder that is not empty unless
  /// restarting or forced.
  void open_folder() const;
  /// Deck as given, overrides, resolved deck, version, git hash, mesh, partition, hosts.
  Provenance provenance(const Mesh& mesh, const Layout& grid) const;
  /// Prints a line on rank 0 unless quiet.
  void say(const std::string& text) const;

 private:
  CommPtr world_;
  CommandLine line_;
  DeckText given_;
  Deck deck_;
  std::filesystem::path folder_;
};

/// Reasons to stop or to write a checkpoint, agreed over all ranks:
///   TERM, INT                       finish the step, checkpoint, stop
///   USR1, HUP                       checkpoint, carry on
///   walltime                        stop when less than the margin is left
///   files in the run folder         stop_run, dump_and_stop, dump_and_continue; removed when obeyed
class StopControl {
 public:
  enum class Wish : std::uint8_t { carry_on, checkpoint, checkpoint_and_stop, stop };

  StopControl(CommPtr world, std::filesystem::path folder, std::optional<double> walltime);
  ~StopControl();
  StopControl(const StopControl&) = delete;
  StopControl& operator=(const StopControl&) = delete;

  /// Collective; once per step. Files and the clock are looked at at most once a second.
  Wish poll();
  /// Seconds that writing a checkpoint took: the margin kept before the walltime.
  void set_checkpoint_time(double seconds) { margin_ = seconds; }

 private:
  CommPtr world_;
  std::filesystem::path folder_;
  std::optional<double> walltime_;
  double margin_ = 5;
  std::chrono::steady_clock::time_point start_, last_look_;
};

}  // namespace tessera
