#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "parallel/communicator.hpp"

namespace tessera {

/// Reasons to stop or to write a checkpoint, agreed over all ranks. One at a time: it holds the signal
/// handlers of the process while it lives.
///   TERM, INT                       finish the step, checkpoint, stop
///   USR1, HUP                       checkpoint, carry on
///   walltime since program start    checkpoint and stop when a step and a checkpoint might not fit any more
///   files in the run folder         stop_run, dump_and_stop, dump_and_continue; removed when obeyed
class StopControl {
 public:
  enum class Wish : std::uint8_t { carry_on, checkpoint, checkpoint_and_stop, stop };

  StopControl(CommPtr world, std::filesystem::path folder, std::optional<double> walltime);
  ~StopControl();
  StopControl(const StopControl&) = delete;
  StopControl& operator=(const StopControl&) = delete;

  /// Collective; once per step. Files are looked for at most once a second, by rank 0.
  Wish poll();
  /// Seconds that writing a checkpoint took: kept free before the walltime, besides the longest step.
  void set_checkpoint_time(double seconds) { margin_ = seconds; }

 private:
  Wish wish_of_files();
  bool out_of_time();

  CommPtr world_;
  std::filesystem::path folder_;
  std::optional<double> walltime_;
  double margin_ = 5;
  double longest_step_ = 0;
  std::chrono::steady_clock::time_point last_poll_, last_look_;
};

}  // namespace tessera
