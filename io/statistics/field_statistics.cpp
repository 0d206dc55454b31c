#include "io/statistics/field_statistics.hpp"

#include <array>
#include <cmath>
#include <map>

#include <yaml-cpp/yaml.h>

#include "io/atomic_file.hpp"
#include "io/hint.hpp"

namespace tessera {
namespace {

struct Key {
  const char* name;
  double ChannelStatistics::*member;
  bool required;
};

constexpr std::array<Key, 8> kKeys{{{"mean", &ChannelStatistics::mean, true},
                                    {"std", &ChannelStatistics::std, true},
                                    {"rms", &ChannelStatistics::rms, false},
                                    {"mean_delta", &ChannelStatistics::mean_delta, false},
                                    {"std_delta", &ChannelStatistics::std_delta, false},
                                    {"rms_delta", &ChannelStatistics::rms_delta, false},
                                    {"min", &ChannelStatistics::min, false},
                                    {"max", &ChannelStatistics::max, false}}};

ChannelStatistics summary(const Moments& value, const Moments& delta) {
  return {value.mean,        value.deviation(), value.rms(), delta.mean,
          delta.deviation(), delta.rms(),       value.min,   value.max};
}

// A scalar as a number, a vector as a list, a tensor as a list of lists.
void emit(YAML::Emitter& out, const std::vector<double>& values, int order) {
  if (order == 0 && values.size() == 1) {
    out << values.front();
  } else if (order < 2) {
    out << YAML::Flow << values;
  } else {
    const auto extent = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(values.size()))));
    out << YAML::Flow << YAML::BeginSeq;
    for (std::size_t i = 0; i < values.size(); i += extent) {
      out << std::vector<double>(
          values.begin() + static_cast<std::ptrdiff_t>(i),
          values.begin() + static_cast<std::ptrdiff_t>(std::min(i + extent, values.size())));
    }
    out << YAML::EndSeq;
  }
}

void flatten(const YAML::Node& node, std::vector<double>& values) {
  if (!node.IsSequence()) return values.push_back(node.as<double>());
  for (const YAML::Node& child : node) flatten(child, values);
}

double number_of(const std::string& path, const char* key, const YAML::Node& fields, const Channel& channel) {
  const YAML::Node node = fields[channel.field];
  if (!node) {
    std::vector<std::string> names;
    for (const auto& item : fields) names.push_back(item.first.as<std::string>());
    fail(ExitCode::input_file, path, "{}: no field '{}'{}", key, channel.field,
         nearest_hint(channel.field, names));
  }
  std::vector<double> values;
  flatten(node, values);
  if (channel.component >= static_cast<int>(values.size())) {
    fail(ExitCode::input_file, path, "{}: field '{}': found {} components, expected more than {}", key,
         channel.field, values.size(), channel.component);
  }
  return values[static_cast<std::size_t>(channel.component)];
}

}  // namespace

std::vector<ChannelStatistics> compute_statistics(FieldSource& source, const StatisticsRequest& request,
                                                  Communicator& all) {
  const std::size_t channels = request.channels.size();
  const Index cells = request.box.volume();
  std::vector<Moments> moments(2 * channels);  // values, then differences
  const std::span<Moments> values(moments.data(), channels), deltas(moments.data() + channels, channels);
  std::vector<double> now(static_cast<std::size_t>(cells) * channels), before(now.size());
  for (const Index trajectory : request.trajectories) {
    const Index steps = source.fields().trajectories.at(static_cast<std::size_t>(trajectory)).steps;
    const Range range = intersect(request.steps, {0, steps});
    for (Index step = range.lo; step < range.hi; ++step) {
      std::swap(now, before);
      source.read(trajectory, step, request.channels, request.box, now.data());
      add_cells(values, now.data(), cells);
      if (step == range.lo) continue;
      for (std::size_t i = 0; i < now.size(); ++i) before[i] = now[i] - before[i];
      add_cells(deltas, before.data(), cells);
    }
  }
  all_merge(all, moments);
  std::vector<ChannelStatistics> result;
  for (std::size_t c = 0; c < channels; ++c) result.push_back(summary(values[c], deltas[c]));
  return result;
}

void write_stats_yaml(const std::filesystem::path& path, std::span<const Channel> channels,
                      std::span<const ChannelStatistics> statistics) {
  require(channels.size() == statistics.size(), "statistics", "{} channels, {} statistics", channels.size(),
          statistics.size());
  YAML::Emitter out;
  out.SetDoublePrecision(17);
  out << YAML::BeginMap;
  for (const Key& key : kKeys) {
    out << YAML::Key << key.name << YAML::Value << YAML::BeginMap;
    for (std::size_t c = 0; c < channels.size(); ++c) {
      if (c > 0 && channels[c].field == channels[c - 1].field) continue;
      std::vector<double> values;
      for (std::size_t i = c; i < channels.size() && channels[i].field == channels[c].field; ++i) {
        values.push_back(statistics[i].*key.member);
      }
      out << YAML::Key << channels[c].field << YAML::Value;
      emit(out, values, channels[c].order);
    }
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
  write_text_atomically(path, std::string(out.c_str()) + "\n");
}

std::vector<ChannelStatistics> read_stats_yaml(const std::filesystem::path& path,
                                               std::span<const Channel> channels) {
  std::vector<ChannelStatistics> result(channels.size());
  const std::string text = read_text(path, std::size_t{1} << 26);
  try {
    const YAML::Node root = YAML::Load(text);
    for (const Key& key : kKeys) {
      const YAML::Node fields = root.IsMap() ? root[key.name] : YAML::Node(YAML::NodeType::Undefined);
      if (!fields && !key.required) continue;
      if (!fields || !fields.IsMap()) fail(ExitCode::input_file, path.string(), "no map '{}'", key.name);
      for (std::size_t c = 0; c < channels.size(); ++c) {
        result[c].*key.member = number_of(path.string(), key.name, fields, channels[c]);
      }
    }
  } catch (const YAML::Exception& e) {
    fail(ExitCode::input_file, path.string(), "not a table of statistics: {}", e.what());
  }
  return result;
}

}  // namespace tessera
