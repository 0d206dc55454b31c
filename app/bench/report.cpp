#include "app/bench/report.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/build_info.hpp"
#include "app/text_table.hpp"
#include "io/plot/line_plot.hpp"
#include "io/version.hpp"
#include "parallel/units.hpp"

namespace tessera::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

/// Threads that the library may use in a rank, as the environment says.
std::string threads_text() {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  return threads ? threads : "all";
}

/// The power of 1000 in which a rate is written.
struct Prefix {
  const char* letter = "";
  double factor = 1;
};

Prefix prefix_of(double rate) {
  constexpr Prefix all[] = {{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}};
  for (const Prefix& p : all) {
    if (rate >= p.factor) return p;
  }
  return {};
}

std::string kind_text(const Case& c) {
  return c.model.empty() ? c.kind->name : c.kind->name + " " + c.model;
}

std::string partition_name(const Case& c) {
  return c.ddp ? "ddp" : c.uneven ? "uneven" : "even";
}

std::string percent(double fraction) {
  return fraction > 0 ? fmt::format("{:.1f} %", 100 * fraction) : "";
}

/// Sizes among the rows of this row's kind and model.
std::size_t sizes_of(const Row& row, const std::vector<Row>& rows) {
  std::set<Index> sizes;
  for (const Row& other : rows) {
    if (kind_text(other.c) == kind_text(row.c)) sizes.insert(other.c.size);
  }
  return sizes.size();
}

/// The rates of one kind over its sizes, or over ranks where there is one size: a line for each of the other
/// things that vary, and a dashed one of the same colour for its limit.
struct Picture {
  std::string title, limit_name, unit;
  bool over_ranks = false;
  std::vector<std::string> labels;
  std::vector<plot::Series> lines;  ///< rate and limit in turn
  std::vector<Row> firsts;          ///< of one rank

  /// Over ranks, every line begins where one rank is.
  void add(const Row& row) {
    const bool begins = over_ranks && row.c.ranks == 1;
    if (begins) firsts.push_back(row);
    const std::string label = label_of(row.c);
    auto at = static_cast<std::size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
    if (at == labels.size()) {
      labels.push_back(label);
      lines.push_back({.label = label, .markers = true, .color = static_cast<int>(at)});
      lines.push_back({.style = plot::LineStyle::dashed, .color = static_cast<int>(at)});
      for (const Row& first : firsts) {
        if (!begins && first.c.precision == row.c.precision) put(at, first);
      }
    }
    put(at, row);
  }

  plot::Image draw() const {
    double most = 0;
    for (const plot::Series& line : lines) {
      for (const double rate : line.y) most = std::max(most, rate > 0 ? rate : 0.0);
    }
    const Prefix prefix = prefix_of(most);
    std::vector<plot::Series> scaled = lines;
    for (plot::Series& line : scaled) {
      for (double& rate : line.y) rate /= prefix.factor;
    }
    plot::LinePlotOptions options{.title = fmt::format("{} (dashed: {})", title, limit_name),
                                  .x_label = over_ranks ? "ranks" : "size",
                                  .y_label = fmt::format("rate ({}{})", prefix.letter, unit)};
    options.log_x = !over_ranks;
    options.x_ticks = plot::TickStyle::whole;
    options.from_zero = true;
    return plot::draw_lines(scaled, options);
  }

 private:
  std::string label_of(const Case& c) const {
    const std::string precision(name_of(c.precision));
    if (c.ranks == 1) return precision + ", 1 rank";
    return over_ranks ? fmt::format("{}, {}", precision, partition_name(c))
                      : fmt::format("{}, {} ranks, {}", precision, c.ranks, partition_name(c));
  }

  void put(std::size_t at, const Row& row) {
    const double x = static_cast<double>(over_ranks ? row.c.ranks : row.c.size);
    for (const auto& [line, rate] :
         {std::pair{&lines[2 * at], row.rate()}, {&lines[2 * at + 1], row.limit}}) {
      line->x.push_back(x);
      line->y.push_back(rate > 0 ? rate : std::numeric_limits<double>::quiet_NaN());
    }
  }
};

}  // namespace

std::string machine_text(int ranks) {
  return fmt::format("{}, {} cores, {} ranks started, OMP_NUM_THREADS {}, tessera {} ({})", processor_name(),
                     std::thread::hardware_concurrency(), ranks, threads_text(), version(), git_hash());
}

std::string rate_text(double rate, const std::string& unit) {
  if (rate <= 0) return "";
  const Prefix prefix = prefix_of(rate);
  const double value = rate / prefix.factor;
  return fmt::format("{:.{}f} {}{}", value, value < 10 ? 2 : value < 100 ? 1 : 0, prefix.letter, unit);
}

std::string table_text(const std::vector<Row>& rows) {
  TextTable table(3);
  table.row({"kind", "size", "precision", "ranks", "partition", "median", "spread", "memory", "rate",
             "of limit", "speed-up", "efficiency"});
  for (const Row& row : rows) {
    const SpeedUp gain = speed_up(row, rows);
    table.row({kind_text(row.c), std::to_string(row.c.size), std::string(name_of(row.c.precision)),
               std::to_string(row.c.ranks), partition_name(row.c), time_text(row.timing.median),
               fmt::format("{:.1f} %", 100 * row.timing.spread()),
               bytes_text(static_cast<double>(row.timing.extra_memory)),
               rate_text(row.rate(), row.c.kind->unit), percent(row.fraction()),
               gain.factor > 0 ? fmt::format("{:.2f}", gain.factor) : "", percent(gain.efficiency)});
  }
  return table.text();
}

std::string figures_text(const std::vector<Figure>& figures) {
  TextTable table;
  table.row({"figure", "mark", "measured", ""});
  for (const Figure& f : figures) table.row({f.what, f.mark, f.measured, f.verdict});
  return table.text();
}

std::string json_text(const std::vector<Row>& rows, int ranks, const std::vector<Figure>& figures) {
  Json json;
  json["version"] = version();
  json["git"] = git_hash();
  json["processor"] = processor_name();
  json["cores"] = std::thread::hardware_concurrency();
  json["ranks"] = ranks;
  json["threads"] = threads_text();
  for (const Figure& f : figures) {
    json["figures"].push_back(
        {{"figure", f.what}, {"mark", f.mark}, {"measured", f.measured}, {"verdict", f.verdict}});
  }
  json["rows"] = Json::array();
  for (const Row& row : rows) {
    Json r;
    r["kind"] = row.c.kind->name;
    if (!row.c.model.empty()) r["model"] = row.c.model;
    r["size"] = row.c.size;
    r["precision"] = name_of(row.c.precision);
    r["ranks"] = row.c.ranks;
    r["partition"] = partition_name(row.c);
    r["repeats"] = row.timing.repeats;
    r["median_s"] = row.timing.median;
    r["quartiles_s"] = {row.timing.low, row.timing.high};
    r["extra_memory_bytes"] = row.timing.extra_memory;
    r["amount"] = row.amount;
    r["rate"] = row.rate();
    r["unit"] = row.c.kind->unit;
    if (row.limit > 0) {
      r["limit"] = {{"name", row.limit_name}, {"rate", row.limit}};
      r["fraction"] = row.fraction();
    }
    if (const SpeedUp gain = speed_up(row, rows); gain.factor > 0) {
      r["speed_up"] = gain.factor;
      r["efficiency"] = gain.efficiency;
    }
    if (!row.losses.empty()) r["losses"] = row.losses;
    json["rows"].push_back(std::move(r));
  }
  return json.dump(2) + "\n";
}

void write_plot(const std::vector<Row>& rows, const std::filesystem::path& path) {
  std::vector<Picture> pictures;
  for (const Row& row : rows) {
    if (pictures.empty() || pictures.back().title != kind_text(row.c)) {
      pictures.push_back(
          {kind_text(row.c), row.limit_name, row.c.kind->unit, sizes_of(row, rows) == 1, {}, {}, {}});
    }
    pictures.back().add(row);
  }
  std::vector<plot::Image> images;
  for (const Picture& picture : pictures) images.push_back(picture.draw());
  plot::write_png(path, plot::tile(images, images.size() > 1 ? 2 : 1), {.title = "tessera bench"});
}

}  // namespace tessera::bench
