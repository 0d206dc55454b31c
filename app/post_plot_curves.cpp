#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "app/post_files.hpp"
#include "app/post_plot.hpp"
#include "io/atomic_file.hpp"
#include "io/hint.hpp"
#include "io/plot/line_plot.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kManyPoints = 200;

/// The lines of a history; a last line without its end (of a run that was killed) is left out.
std::vector<Json> read_history(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<Json> lines;
  for (std::size_t from = 0, number = 1; from < text.size(); ++number) {
    const std::size_t end = text.find('\n', from);
    if (end == std::string::npos) break;
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    if (line.empty()) continue;
    Json object = Json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number()) {
      fail(ExitCode::input_file, path, "line {}: found '{}', expected a JSON object with a number 'step'",
           number, line.substr(0, 60));
    }
    lines.push_back(std::move(object));
  }
  if (lines.empty()) fail(ExitCode::input_file, path, "the history has no lines");
  return lines;
}

plot::Series curve(const std::vector<Json>& lines, const std::string& key) {
  plot::Series series;
  series.label = key;
  for (const Json& line : lines) {
    if (!line.contains(key)) continue;
    series.x.push_back(line["step"].get<double>());
    series.y.push_back(line[key].is_number() ? line[key].get<double>() : kNan);
  }
  return series;
}

/// Mean over the neighbours within a fiftieth of the curve. Where it starts, and falls most, the window
/// shrinks on both sides; where it ends, on the far side alone, so that the last value is no single one.
plot::Series smoothed(const plot::Series& raw) {
  plot::Series result = raw;
  const auto n = static_cast<std::ptrdiff_t>(raw.y.size()), reach = std::max<std::ptrdiff_t>(n / 100, 1);
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const std::ptrdiff_t half = std::min(reach, i), last = std::min(i + half, n - 1);
    double sum = 0;
    for (std::ptrdiff_t k = i - half; k <= last; ++k) sum += raw.y[static_cast<std::size_t>(k)];
    result.y[static_cast<std::size_t>(i)] = sum / static_cast<double>(last - i + half + 1);
  }
  return result;
}

std::vector<std::string> default_keys(const std::vector<Json>& lines) {
  std::set<std::string> present;
  for (const Json& line : lines) {
    for (const auto& [key, value] : line.items()) present.insert(key);
  }
  std::vector<std::string> keys;
  for (const char* key : {"loss", "valid_loss"}) {
    if (present.contains(key)) keys.emplace_back(key);
  }
  for (const std::string& key : present) {
    if (keys.empty() && key != "step" && key != "epoch") keys.push_back(key);
  }
  return keys;
}

std::string spoken(const std::string& key) {
  if (key == "loss") return "training";
  if (key == "valid_loss") return "validation";
  return key == "lr" ? "learning rate" : key;
}

bool positive(const std::vector<plot::Series>& curves) {
  bool any = false;
  for (const plot::Series& curve : curves) {
    for (const double y : curve.y) {
      if (y < 0) return false;
      any = any || y > 0;
    }
  }
  return any;
}

Json read_comparison(const std::string& path) {
  Json json = Json::parse(read_text(path), nullptr, false);
  for (const char* key : {"fields", "predictions", "metrics", "samples"}) {
    if (!json.is_object() || !json.contains(key)) {
      fail(ExitCode::input_file, path, "no '{}': expected a file that `tessera post compare json=FILE` wrote",
           key);
    }
  }
  return json;
}

std::string choose_metric(const Json& json, const std::string& wanted, const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, value] : json.at("metrics").items()) names.push_back(name);
  if (names.empty()) fail(ExitCode::input_file, path, "no metrics");
  if (wanted.empty()) return names.front();
  if (std::find(names.begin(), names.end(), wanted) == names.end()) {
    fail(ExitCode::usage, path, "no metric '{}'{}", wanted, nearest_hint(wanted, names));
  }
  return wanted;
}

std::vector<std::string> choose_fields(const Json& json, const std::vector<std::string>& wanted,
                                       const std::string& path) {
  std::vector<std::string> names;
  for (const Json& field : json.at("fields")) names.push_back(field.at("name").get<std::string>());
  for (const std::string& name : wanted) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      fail(ExitCode::usage, path, "no field '{}'{}", name, nearest_hint(name, names));
    }
  }
  return wanted.empty() ? names : wanted;
}

double number(const Json& json) {
  return json.is_number() ? json.get<double>() : kNan;
}

/// "pooled RMSE" for "pooled_rmse".
std::string metric_title(std::string name) {
  std::string title;
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t end = std::min(name.find('_', from), name.size());
    std::string word = name.substr(from, end - from);
    if (word.ends_with("mse") || word == "mae") {
      for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    title += (title.empty() ? "" : " ") + word;
    from = end + 1;
  }
  return title;
}

std::string with_unit(const std::string& text, const std::string& unit) {
  return unit.empty() ? text : text + " (" + unit + ")";
}

/// One frame per unit, categories are its fields.
std::vector<plot::Image> bar_frames(const Json& json, const std::string& metric,
                                    const std::vector<std::string>& fields, const std::string& title) {
  const Json& entry = json.at("metrics").at(metric);
  std::vector<std::string> units;
  for (const std::string& f : fields) {
    const auto unit = entry.at("unit").at(f).get<std::string>();
    if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
  }
  std::vector<plot::Image> frames;
  for (const std::string& unit : units) {
    std::vector<std::string> categories;
    for (const std::string& f : fields) {
      if (entry.at("unit").at(f).get<std::string>() == unit) categories.push_back(f);
    }
    std::vector<plot::BarSeries> bars;
    for (const Json& prediction : json.at("predictions")) {
      const auto name = prediction.at("name").get<std::string>();
      plot::BarSeries series{name, {}};
      for (const std::string& f : categories) {
        series.values.push_back(number(entry.at("values").at(f).at(name).at("mean")));
      }
      bars.push_back(series);
    }
    plot::BarPlotOptions options;
    options.title = title;
    options.y_label = with_unit(metric_title(metric), unit);
    frames.push_back(plot::draw_bars(categories, bars, options));
  }
  return frames;
}

std::vector<plot::Image> lead_frames(const Json& json, const std::string& metric,
                                     const std::vector<std::string>& fields, const std::string& title) {
  const Json& entry = json.at("metrics").at(metric);
  const double dt = number(json.value("step_length", Json(nullptr)));
  const std::string unit = json.value("time_unit", std::string());
  const bool timed = std::isfinite(dt) && dt > 0 && !unit.empty();
  std::vector<plot::Image> frames;
  for (const std::string& f : fields) {
    std::vector<plot::Series> curves;
    for (const Json& prediction : json.at("predictions")) {
      const auto name = prediction.at("name").get<std::string>();
      plot::Series series;
      series.label = name;
      for (const Json& value : entry.at("values").at(f).at(name).at("by_step")) {
        series.y.push_back(number(value));
        series.x.push_back(static_cast<double>(series.y.size()) * (timed ? dt : 1));
      }
      series.markers = series.y.size() <= 40;
      if (!curves.empty()) series.style = plot::LineStyle::dashed;
      curves.push_back(series);
    }
    plot::LinePlotOptions options;
    options.title = (title.empty() ? "" : title + ": ") + f;
    options.x_label =
        timed ? with_unit("lead time", unit.substr(0, unit.find(" since "))) : "lead time (steps)";
    options.y_label = with_unit(metric_title(metric), entry.at("unit").at(f).get<std::string>());
    options.x_ticks = timed ? plot::TickStyle::decimal : plot::TickStyle::whole;
    options.from_zero = true;
    options.width = fields.size() > 1 ? 520 : 660;
    frames.push_back(plot::draw_lines(curves, options));
  }
  return frames;
}

}  // namespace

plot::Image plot_histories(const PlotRequest& request) {
  std::vector<plot::Series> curves;
  std::set<std::string> keys_drawn;
  for (const std::string& path : request.paths) {
    const std::vector<Json> lines = read_history(path);
    const std::vector<std::string> keys = request.keys.empty() ? default_keys(lines) : request.keys;
    for (const std::string& key : keys) {
      plot::Series series = curve(lines, key);
      if (series.x.empty()) {
        fail(request.keys.empty() ? ExitCode::input_file : ExitCode::usage, path, "no line has a number '{}'",
             key);
      }
      keys_drawn.insert(key);
      const std::string run = std::filesystem::path(path).parent_path().filename().string();
      series.label = (request.paths.size() > 1 ? (run.empty() ? path : run) + ": " : "") + spoken(key);
      curves.push_back(series);
    }
  }
  std::vector<plot::Series> drawn;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    curves[i].color = static_cast<int>(i);
    curves[i].markers = curves[i].x.size() <= 40;
    if (curves[i].x.size() < kManyPoints) {
      drawn.push_back(curves[i]);
      continue;
    }
    drawn.push_back(smoothed(curves[i]));
    curves[i].label.clear();
    curves[i].opacity = 0.3;
    curves[i].width = 1;
    drawn.insert(drawn.begin(), curves[i]);
  }
  const bool losses = std::all_of(keys_drawn.begin(), keys_drawn.end(),
                                  [](const std::string& k) { return k == "loss" || k == "valid_loss"; });
  plot::LinePlotOptions options;
  options.title = request.title;
  options.x_label = "step";
  options.y_label = losses ? "loss" : keys_drawn.size() == 1 ? spoken(*keys_drawn.begin()) : "";
  options.x_ticks = plot::TickStyle::whole;
  options.log_y = positive(curves);
  return plot::draw_lines(drawn, options);
}

plot::Image plot_comparison(const PlotRequest& request) {
  if (request.paths.size() > 1) {
    fail(ExitCode::usage, "post plot", "found {} comparisons, expected one", request.paths.size());
  }
  const std::string& path = request.paths.front();
  try {
    const Json json = read_comparison(path);
    const std::string metric = choose_metric(json, request.metric, path);
    const std::vector<std::string> fields = choose_fields(json, request.fields, path);
    const bool one_lead = json.at("samples").size() == 1;
    const auto frames = one_lead ? bar_frames(json, metric, fields, request.title)
                                 : lead_frames(json, metric, fields, request.title);
    return plot::tile(frames, frames.size() <= 3 ? static_cast<Index>(frames.size()) : 2);
  } catch (const nlohmann::json::exception& e) {
    fail(ExitCode::input_file, path, "not a comparison: {}", e.what());
  }
}

}  // namespace tessera
