#pragma once

#include <map>

#include "app/bench/kinds.hpp"
#include "parallel/comm_stats.hpp"

namespace tessera::bench {

/// A case and what was measured of it. On ranks outside its group the figures are 0.
struct Row {
  Case c;
  Timing timing;
  double amount = 0;  ///< of one run, all ranks together
  std::string limit_name;
  double limit = 0;  ///< rate; 0: there is none
  std::vector<double> losses;
  std::string communication;  ///< of the first rank during all repeats, as a table

  double rate() const { return timing.median > 0 ? amount / timing.median : 0; }
  double fraction() const { return limit > 0 ? rate() / limit : 0; }
};

/// Which runs of rows to compare a row with: of the same kind, model, size and precision.
struct SpeedUp {
  double factor = 0;      ///< rate over that of the row with fewest ranks; 0: there is nothing to compare
  double efficiency = 0;  ///< per rank
};
SpeedUp speed_up(const Row& row, const std::vector<Row>& rows);

struct RunnerOptions {
  MeasureOptions measure;
  std::filesystem::path folder;
  std::optional<std::filesystem::path> save;
  bool communication = false;  ///< fill Row::communication
};

/// Runs cases on the first ranks of the world, the others asleep.
class Runner {
 public:
  Runner(CommPtr world, RunnerOptions options) : world_(std::move(world)), options_(std::move(options)) {}

  /// Collective over the world.
  Row run(const Case& c);
  const CommPtr& world() const { return world_; }

 private:
  struct Group {
    CommPtr comm;
    std::unique_ptr<Limits> limits;
  };
  Group& group_of(int ranks);
  Row measure_row(const Case& c, Group& group) const;

  CommPtr world_;
  RunnerOptions options_;
  std::map<int, Group> groups_;
};

}  // namespace tessera::bench
