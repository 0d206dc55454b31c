#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/post_info.hpp"
#include "app/text_table.hpp"
#include "io/atomic_file.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/safetensors/safetensors.hpp"
#include "parallel/units.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kShownArrays = 12;

struct ArrayLine {
  std::string name, type;
  Shape shape;
  double bytes = 0;
};

std::string arrays_text(const std::vector<ArrayLine>& arrays, bool all) {
  TextTable table;
  const std::size_t shown = all ? arrays.size() : std::min(arrays.size(), kShownArrays);
  for (std::size_t i = 0; i < shown; ++i) {
    table.row({arrays[i].name, arrays[i].type, to_string(arrays[i].shape)});
  }
  std::string text = table.text();
  if (shown < arrays.size())
    text += fmt::format("  ... and {} more (all=true lists them)\n", arrays.size() - shown);
  return text;
}

/// "32 arrays, 187296 numbers, 731.6 KiB".
std::string sum_text(const std::vector<ArrayLine>& arrays) {
  Index numbers = 0;
  double bytes = 0;
  for (const ArrayLine& a : arrays) {
    numbers += count(a.shape);
    bytes += a.bytes;
  }
  return fmt::format("{} arrays, {} numbers, {}", arrays.size(), numbers, bytes_text(bytes));
}

std::string indented(const std::string& text) {
  std::string result;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    result += "    " + text.substr(from, end - from) + "\n";
    from = end + 1;
  }
  return result;
}

/// Scalars of a checkpoint's state, one line each; longer texts (the deck) in full where wanted.
std::string state_text(const std::string& state, bool all) {
  const auto json = nlohmann::ordered_json::parse(state, nullptr, false);
  if (!json.is_object()) return "";
  std::string text;
  TextTable table;
  for (const auto& [name, value] : json.items()) {
    const bool lines = value.is_string() && value.get<std::string>().find('\n') != std::string::npos;
    if (lines && all) {
      text += fmt::format("\n  {}\n{}", name, indented(value.get<std::string>()));
    } else if (lines) {
      const auto whole = value.get<std::string>();
      table.row({name, fmt::format("{} lines (all=true prints them)",
                                   std::count(whole.begin(), whole.end(), '\n'))});
    } else if (value.is_primitive()) {
      table.row({name, value.is_string() ? value.get<std::string>() : value.dump()});
    } else if (all) {
      text += fmt::format("\n  {}\n{}", name, indented(value.dump(2)));
    } else {
      table.row({name, fmt::format("{} entries", value.size())});
    }
  }
  return table.text() + text;
}

std::string steps_of(const fs::path& root) {
  std::string text;
  for (const fs::path& folder : list_checkpoints(root)) {
    const std::string name = folder.filename().string();
    text += (text.empty() ? "" : ", ") + std::to_string(std::stoll(name.substr(name.find_last_of('_') + 1)));
  }
  return text;
}

}  // namespace

std::string checkpoint_info(const fs::path& folder, const InfoOptions& options) {
  const Checkpoint checkpoint(folder);
  std::map<std::string, std::vector<ArrayLine>> kinds;
  for (const auto& [name, array] : checkpoint.arrays()) {
    const std::string kind = name.starts_with("optimizer.") ? "optimiser"
                             : name.starts_with("average.") ? "averages"
                                                            : "model";
    const auto bytes = static_cast<double>(count(array.shape)) * static_cast<double>(size_of(array.type));
    kinds[kind].push_back({name, std::string(name_of(array.type)), array.shape, bytes});
  }
  std::string text = fmt::format("{}: checkpoint after {} updates\n", folder.string(), checkpoint.step());
  TextTable table;
  for (const char* kind : {"model", "optimiser", "averages"}) {
    if (kinds.contains(kind)) table.row({kind, sum_text(kinds[kind])});
  }
  text += table.text() + state_text(checkpoint.state(), options.all);
  for (const char* kind : {"model", "optimiser", "averages"}) {
    if (!kinds.contains(kind) || (!options.all && std::string(kind) != "model")) continue;
    text += "\n" + arrays_text(kinds[kind], options.all);
  }
  return text;
}

std::string safetensors_info(const std::string& path, const InfoOptions& options) {
  const SafetensorsFile file(path);
  std::vector<ArrayLine> arrays;
  for (const auto& [name, entry] : file.entries()) {
    arrays.push_back({name, entry.dtype, entry.shape, static_cast<double>(entry.end - entry.begin)});
  }
  std::string text = fmt::format("{}: safetensors, {}\n", path, sum_text(arrays));
  std::string long_texts;
  TextTable table;
  for (const auto& [name, value] : file.metadata()) {
    if (value.find('\n') == std::string::npos) {
      table.row({name, value});
    } else if (options.all) {
      long_texts += fmt::format("\n  {}\n{}", name, indented(value));
    } else {
      table.row({name, fmt::format("{} lines (all=true prints them)",
                                   std::count(value.begin(), value.end(), '\n'))});
    }
  }
  return text + table.text() + long_texts + "\n" + arrays_text(arrays, options.all);
}

std::string history_info(const fs::path& path) {
  const std::string text = read_text(path);
  Index last_step = 0, lines = 0;
  std::map<std::string, double> last;
  double best = INFINITY;
  Index best_step = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = text.find('\n', from);
    if (end == std::string::npos) break;
    const auto object = nlohmann::json::parse(text.substr(from, end - from), nullptr, false);
    from = end + 1;
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number()) continue;
    ++lines;
    last_step = std::max(last_step, object["step"].get<Index>());
    for (const auto& [key, value] : object.items()) {
      if (value.is_number()) last[key] = value.get<double>();
    }
    if (object.contains("valid_loss") && object["valid_loss"].is_number() && object["valid_loss"] < best) {
      best = object["valid_loss"].get<double>();
      best_step = object["step"].get<Index>();
    }
  }
  TextTable table;
  table.row({"history", fmt::format("{} lines up to step {}", lines, last_step)});
  for (const auto& [key, value] : last) {
    if (key != "step" && key != "skipped") table.row({"  last " + key, fmt::format("{:.5g}", value)});
  }
  if (std::isfinite(best)) {
    table.row({"  best valid_loss", fmt::format("{:.5g} at step {}", best, best_step)});
  }
  return fmt::format("{}:\n{}", path.string(), table.text());
}

std::string run_info(const fs::path& folder) {
  std::string text = fmt::format("{}: run folder\n", folder.string());
  TextTable table;
  for (const char* root : {"checkpoints", "best"}) {
    if (!fs::is_directory(folder / root)) continue;
    const std::string steps = steps_of(folder / root);
    table.row({root, steps.empty() ? "none" : "updates " + steps});
  }
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (name == "checkpoints" || name == "best") continue;
    if (fs::is_directory(entry)) {
      const auto files =
          std::count_if(fs::recursive_directory_iterator(entry), fs::recursive_directory_iterator(),
                        [](const auto& e) { return e.path().extension() == ".hdf5"; });
      table.row({name + "/", fmt::format("{} HDF5 {}", files, files == 1 ? "file" : "files")});
    } else if (name != "history.jsonl") {
      table.row({name, bytes_text(static_cast<double>(fs::file_size(entry)))});
    }
  }
  text += table.text();
  if (fs::exists(folder / "history.jsonl")) text += "\n" + history_info(folder / "history.jsonl");
  return text;
}

}  // namespace tessera
