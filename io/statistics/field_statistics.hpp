#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "io/fields/field_source.hpp"
#include "io/statistics/moments.hpp"

namespace tessera {

/// What normalisation needs to know of a channel: of its values, and of the differences between consecutive
/// steps.
struct ChannelStatistics {
  double mean = 0, std = 1, rms = 1;
  double mean_delta = 0, std_delta = 1, rms_delta = 1;
  double min = 0, max = 0;  ///< not part of The Well's file, written and read where present
};

/// Which data statistics are taken over, as one rank sees it.
struct StatisticsRequest {
  std::vector<int> channels;
  std::vector<Index> trajectories;  ///< of this rank's group; the groups' lists are disjoint
  Range steps;                      ///< clipped to each trajectory's length
  Box box;                          ///< this rank's box of the grid
};

/// Statistics of channels over space, time and trajectories; one entry per requested channel, the same on
/// every rank of `all`, which are those of one or several groups that read a source each. Collective. Holds
/// two steps of the rank's own box.
std::vector<ChannelStatistics> compute_statistics(FieldSource& source, const StatisticsRequest& request,
                                                  Communicator& all);

/// The Well's stats.yaml: `mean`, `std`, `rms`, `mean_delta`, ... , each a map from field to a number, or
/// nested lists for vectors and tensors. `channels` says to which field and component each entry belongs.
/// Written atomically.
void write_stats_yaml(const std::filesystem::path& path, std::span<const Channel> channels,
                      std::span<const ChannelStatistics> statistics);
/// Throws Error(input_file) where a field or a component is missing.
std::vector<ChannelStatistics> read_stats_yaml(const std::filesystem::path& path,
                                               std::span<const Channel> channels);

}  // namespace tessera
