#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "app/post_compare.hpp"
#include "app/text_table.hpp"
#include "io/version.hpp"

namespace tessera {
namespace {

constexpr Index kMostRows = 20;

/// All lead times, or of many 0, 1, 4, 9, 19, 49, ... and the last.
std::vector<Index> shown_leads(Index leads) {
  std::vector<Index> shown;
  if (leads <= kMostRows) {
    for (Index k = 0; k < leads; ++k) shown.push_back(k);
    return shown;
  }
  for (Index power = 1; power < leads; power *= 10) {
    for (const Index step : {power, 2 * power, 5 * power}) {
      if (step < leads) shown.push_back(step - 1);
    }
  }
  shown.push_back(leads - 1);
  return shown;
}

std::string number(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:#.5g}", value);
}

std::string metric_table_text(const Comparison& c, std::size_t metric, const std::vector<Index>& leads) {
  TextTable table(2);
  std::vector<std::string> head{"field", "unit", "step"};
  for (const Comparison::Column& column : c.columns) head.push_back(column.name);
  table.row(head);
  for (std::size_t f = 0; f < c.fields.size(); ++f) {
    const std::string unit = unit_of(c.metrics[metric], c.fields[f].unit);
    auto row = [&](const std::string& step, auto value_of) {
      std::vector<std::string> cells{c.fields[f].name, unit.empty() ? "-" : unit, step};
      for (const Comparison::Column& column : c.columns) cells.push_back(number(value_of(column)));
      table.row(cells);
    };
    for (const Index k : leads) {
      row(std::to_string(k + 1), [&](const auto& column) { return c.value(column, metric, f, k); });
    }
    if (c.leads > 1) row("mean", [&](const auto& column) { return c.mean(column, metric, f); });
  }
  return table.text();
}

nlohmann::ordered_json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string comparison_table(const Comparison& c) {
  TextTable head(2);
  head.row({"truth", c.truth});
  for (const Comparison::Column& column : c.columns) head.row({column.name, column.path});
  head.row({"grid", c.grid});
  head.row({"samples", c.steps});
  std::string text = head.text();
  const std::vector<Index> leads = shown_leads(c.leads);
  if (static_cast<Index>(leads.size()) < c.leads) {
    text += fmt::format("  {} of {} steps are shown; json=FILE holds all\n", leads.size(), c.leads);
  }
  for (std::size_t m = 0; m < c.metrics.size(); ++m) {
    const MetricInfo& metric = info(c.metrics[m]);
    text += fmt::format("\n{}: {}{}\n", metric.name, metric.meaning,
                        metric.higher_better ? " (higher is better)" : "");
    text += metric_table_text(c, m, leads);
  }
  return text;
}

std::string comparison_json(const Comparison& c) {
  nlohmann::ordered_json json;
  json["tessera"] = version();
  json["truth"] = c.truth;
  json["grid"] = c.grid;
  json["time_unit"] = c.time_unit;
  json["step_length"] = number_or_null(c.step_length > 0 ? c.step_length : NAN);
  for (const Comparison::Field& field : c.fields) {
    json["fields"].push_back({{"name", field.name}, {"unit", field.unit}});
  }
  for (const Comparison::Column& column : c.columns) {
    json["predictions"].push_back({{"name", column.name}, {"path", column.path}});
  }
  json["samples"] = c.samples;
  for (std::size_t m = 0; m < c.metrics.size(); ++m) {
    const MetricInfo& metric = info(c.metrics[m]);
    nlohmann::ordered_json entry{{"meaning", metric.meaning}};
    for (std::size_t f = 0; f < c.fields.size(); ++f) {
      for (const Comparison::Column& column : c.columns) {
        nlohmann::ordered_json values;
        values["mean"] = number_or_null(c.mean(column, m, f));
        for (Index k = 0; k < c.leads; ++k) {
          values["by_step"].push_back(number_or_null(c.value(column, m, f, k)));
        }
        entry["unit"][c.fields[f].name] = unit_of(metric.metric, c.fields[f].unit);
        entry["values"][c.fields[f].name][column.name] = values;
      }
    }
    json["metrics"][std::string(metric.name)] = entry;
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera
