#include "app/post_files.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "io/agree.hpp"
#include "io/fields/well_source.hpp"
#include "io/hint.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The subfolders of a forecast's folder, the truth first; the paths themselves otherwise.
std::vector<std::string> expand(const std::vector<std::string>& paths) {
  if (paths.size() != 1 || !fs::is_directory(fs::path(paths[0]) / "truth")) return paths;
  const std::vector<std::string> known{"truth", "prediction", "persistence", "climatology"};
  std::vector<std::string> names = known, others;
  for (const auto& entry : fs::directory_iterator(paths[0])) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && std::find(known.begin(), known.end(), name) == known.end()) {
      others.push_back(name);
    }
  }
  std::sort(others.begin(), others.end());
  names.insert(names.end(), others.begin(), others.end());
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    const fs::path part = fs::path(paths[0]) / name;
    if (!fs::is_directory(part)) continue;
    try {
      list_hdf5_files({part.string()});
    } catch (const Error&) {
      continue;  // no fields in there
    }
    parts.push_back(part.string());
  }
  return parts;
}

/// The last `parts` parts of a path, without the suffix of a file.
std::string short_name(const std::string& path, int parts) {
  fs::path p = fs::path(path).lexically_normal();
  if (!p.has_filename()) p = p.parent_path();
  std::string name = (fs::is_directory(p) ? p.filename() : p.stem()).string();
  for (int i = 1; i < parts && p.has_parent_path(); ++i) {
    p = p.parent_path();
    if (p.filename().empty()) break;
    name = (p.filename() / name).string();
  }
  return name;
}

void name_apart(std::vector<PostFields>& sets) {
  for (int parts = 1; parts < 16; ++parts) {
    for (PostFields& set : sets) set.name = short_name(set.path, parts);
    bool unique = true;
    for (std::size_t a = 0; a < sets.size(); ++a) {
      for (std::size_t b = a + 1; b < sets.size(); ++b) unique = unique && sets[a].name != sets[b].name;
    }
    if (unique) return;
  }
}

void check_axis(const PostFields& truth, const PostFields& other, std::size_t a) {
  const GridAxis& expected = truth.fields().axes[a];
  const GridAxis& found = other.fields().axes[a];
  const std::size_t n = expected.coordinates.size();
  const double span = n > 1 ? std::abs(expected.coordinates.back() - expected.coordinates.front()) : 1;
  for (std::size_t i = 0; i < n; ++i) {
    const double difference = std::abs(found.coordinates[i] - expected.coordinates[i]);
    if (difference > 1e-5 * std::max(span, std::abs(expected.coordinates[i]))) {
      fail(ExitCode::input_file, other.path, "axis {} point {}: found {}, expected {} as in {}", found.name,
           i, found.coordinates[i], expected.coordinates[i], truth.path);
    }
  }
}

void check_times(const PostFields& truth, const PostFields& other, std::size_t trajectory) {
  const Trajectory& expected = truth.fields().trajectories[trajectory];
  const Trajectory& found = other.fields().trajectories[trajectory];
  if (found.steps < expected.steps) {
    fail(ExitCode::input_file, other.path, "trajectory {}: found {} steps, expected {} as in {}", trajectory,
         found.steps, expected.steps, truth.path);
  }
  for (std::size_t t = 0; t < static_cast<std::size_t>(expected.steps); ++t) {
    const double a = (*expected.times)[t], b = (*found.times)[t];
    if (std::abs(a - b) > 1e-6 * std::max({std::abs(a), std::abs(b), 1.0})) {
      fail(ExitCode::input_file, other.path, "trajectory {} step {}: found the time {}, expected {} as in {}",
           trajectory, t, b, a, truth.path);
    }
  }
}

}  // namespace

std::vector<PostFields> open_post_fields(const std::vector<std::string>& paths, const CommPtr& comm) {
  std::vector<std::string> parts;
  run_together(*comm, [&] { parts = expand(paths); });
  BadValuePolicy keep;
  keep.action = BadValuePolicy::Action::keep;
  std::vector<PostFields> sets;
  for (const std::string& path : parts) sets.push_back({"", path, open_well({{path}, keep}, comm)});
  name_apart(sets);
  return sets;
}

std::vector<int> choose_channels(const PostFields& set, const std::vector<std::string>& names) {
  const std::vector<Channel>& all = set.fields().channels;
  std::vector<int> chosen;
  for (std::size_t c = 0; names.empty() && c < all.size(); ++c) {
    if (all[c].time_varying) chosen.push_back(static_cast<int>(c));
  }
  for (const std::string& name : names) {
    const std::size_t before = chosen.size();
    for (std::size_t c = 0; c < all.size(); ++c) {
      if (all[c].name == name || all[c].field == name) chosen.push_back(static_cast<int>(c));
    }
    if (chosen.size() > before) continue;
    std::vector<std::string> candidates;
    std::string list;
    for (const Channel& c : all) {
      candidates.push_back(c.name);
      list += (list.empty() ? "" : ", ") + c.name;
    }
    fail(ExitCode::usage, set.path, "no field '{}': found {}{}", name, list, nearest_hint(name, candidates));
  }
  if (chosen.empty()) fail(ExitCode::input_file, set.path, "no field that varies in time");
  return chosen;
}

std::vector<int> same_channels(const PostFields& truth, const std::vector<int>& channels,
                               const PostFields& other) {
  std::vector<int> result;
  const std::vector<Channel>& all = other.fields().channels;
  for (const int c : channels) {
    const std::string& name = truth.fields().channels[static_cast<std::size_t>(c)].name;
    const auto at = std::find_if(all.begin(), all.end(), [&](const Channel& ch) { return ch.name == name; });
    if (at == all.end()) {
      std::string list;
      for (const Channel& ch : all) list += (list.empty() ? "" : ", ") + ch.name;
      fail(ExitCode::input_file, other.path, "no field '{}': found {}, expected those of {}", name, list,
           truth.path);
    }
    result.push_back(static_cast<int>(at - all.begin()));
  }
  return result;
}

void check_comparable(const PostFields& truth, const PostFields& other) {
  if (!(other.fields().grid() == truth.fields().grid())) {
    fail(ExitCode::input_file, other.path, "found a grid of {}, expected {} as in {}",
         grid_text(other.fields()), grid_text(truth.fields()), truth.path);
  }
  const std::size_t found = other.fields().trajectories.size();
  const std::size_t expected = truth.fields().trajectories.size();
  if (found != expected) {
    fail(ExitCode::input_file, other.path, "found {} trajectories, expected {} as in {}", found, expected,
         truth.path);
  }
  for (std::size_t a = 0; a < truth.fields().axes.size(); ++a) check_axis(truth, other, a);
  for (std::size_t b = 0; b < expected; ++b) check_times(truth, other, b);
}

std::string grid_text(const FieldSet& fields) {
  std::string text;
  for (const GridAxis& axis : fields.axes) {
    text += (text.empty() ? "" : " x ") + axis.name + " " + std::to_string(axis.coordinates.size());
  }
  return text;
}

std::string steps_text(const FieldSet& fields) {
  Index fewest = fields.trajectories.empty() ? 0 : fields.trajectories.front().steps;
  for (const Trajectory& t : fields.trajectories) fewest = std::min(fewest, t.steps);
  const Index most = longest_trajectory(fields);
  const std::size_t n = fields.trajectories.size();
  const std::string steps = fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  return fmt::format("{} {} of {} {}", n, n == 1 ? "trajectory" : "trajectories", steps,
                     most == 1 ? "step" : "steps");
}

std::string time_text(double time, const std::string& unit) {
  static const std::pair<const char*, double> kSeconds[] = {
      {"second", 1}, {"minute", 60}, {"hour", 3600}, {"day", 86400}};
  int year = 0, hour = 0, minute = 0;
  unsigned month = 0, day = 0;
  const std::size_t since = unit.find(" since ");
  if (since != std::string::npos && std::sscanf(unit.c_str() + since + 7, "%d-%u-%u%*[ T]%d:%d", &year,
                                                &month, &day, &hour, &minute) >= 3) {
    for (const auto& [name, seconds] : kSeconds) {
      const std::chrono::year_month_day start{std::chrono::year{year}, std::chrono::month{month},
                                              std::chrono::day{day}};
      if (!unit.starts_with(name) || !start.ok() || std::abs(time * seconds) > 1e12) continue;
      const auto moment = std::chrono::sys_days{start} + std::chrono::hours{hour} +
                          std::chrono::minutes{minute} + std::chrono::seconds{std::llround(time * seconds)};
      const std::chrono::year_month_day date{std::chrono::floor<std::chrono::days>(moment)};
      return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                         static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
    }
  }
  return fmt::format("t = {:.5g}{}{}", time, unit.empty() ? "" : " ", unit);
}

Index longest_trajectory(const FieldSet& fields) {
  Index most = 0;
  for (const Trajectory& t : fields.trajectories) most = std::max(most, t.steps);
  return most;
}

std::vector<std::string> split_commas(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) {
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t comma = std::min(text.find(',', from), text.size());
      if (comma > from) parts.push_back(text.substr(from, comma - from));
      from = comma + 1;
    }
  }
  return parts;
}

}  // namespace tessera
