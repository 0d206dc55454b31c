#pragma once

#include <string>
#include <vector>

#include "io/fields/field_source.hpp"

namespace tessera {

/// One set of fields that a `post` command was given: a file in The Well's layout or a folder of them.
struct PostFields {
  std::string name;  ///< for tables and pictures: the stem of the path, with as many parents as tell it apart
  std::string path;
  FieldSourcePtr source;

  const FieldSet& fields() const { return source->fields(); }
};

/// Opens them, the truth first. A single folder that `tessera predict` wrote stands for its parts: truth,
/// prediction and baselines. Missing values and NaN are handed over as they are. Collective.
std::vector<PostFields> open_post_fields(const std::vector<std::string>& paths, const CommPtr& comm);

/// Positions in fields.channels of the names, which are those of channels or of fields with all of their
/// components; without names, all that vary in time. Throws Error(usage) with the nearest name.
std::vector<int> choose_channels(const PostFields& set, const std::vector<std::string>& names);

/// Positions in `other` of the channels that `channels` are in `truth`; throws Error(input_file) naming both
/// paths where one is missing.
std::vector<int> same_channels(const PostFields& truth, const std::vector<int>& channels,
                               const PostFields& other);

/// Throws Error(input_file), naming both paths, unless `other` has the truth's grid, trajectories and times.
/// `other` may have further steps: the truth of a forecast may end before it does.
void check_comparable(const PostFields& truth, const PostFields& other);

/// "latitude 73 x longitude 144".
std::string grid_text(const FieldSet& fields);
/// "24 trajectories of 1 step", "8 trajectories of 10 to 20 steps".
std::string steps_text(const FieldSet& fields);
/// "t = 2.5 s"; a date for units like "hours since 1980-01-14 14:00:00".
std::string time_text(double time, const std::string& unit);
/// Steps of the longest trajectory.
Index longest_trajectory(const FieldSet& fields);

/// The entries of texts that are comma-separated lists themselves.
std::vector<std::string> split_commas(const std::vector<std::string>& texts);

}  // namespace tessera
