// The tables of `tessera plan`.
#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "app/plan_cost.hpp"
#include "parallel/mesh_axes.hpp"
#include "parallel/units.hpp"
#include "solver/train/trainer.hpp"

namespace tessera {
namespace {

constexpr int kMostBoxes = 16;  ///< more ranks than these are not listed one by one

std::string operations_text(double operations) {
  const char* units[] = {"", " kflop", " Mflop", " Gflop", " Tflop", " Pflop"};
  int unit = 0;
  for (; operations >= 1000 && unit < 5; ++unit) operations /= 1000;
  return fmt::format("{:.4g}{}", operations, unit == 0 ? " flop" : units[unit]);
}

/// A rank of a domain group that stands for others.
struct Column {
  std::string title;
  int rank = 0;
};

/// The boxes of a domain group, by size.
class Boxes {
 public:
  explicit Boxes(const GridCuts& cuts) : cuts_(cuts), order_(static_cast<std::size_t>(ranks_of(cuts))) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return cells(a) < cells(b); });
  }

  int ranks() const { return static_cast<int>(order_.size()); }
  Index cells(int rank) const { return box_of(cuts_, rank).volume(); }
  int empty() const {
    return static_cast<int>(
        std::count_if(order_.begin(), order_.end(), [&](int rank) { return cells(rank) == 0; }));
  }
  int median() const { return order_[order_.size() / 2]; }
  /// The smallest box that is not empty and the largest one; of equal ones that in the middle, which has
  /// neighbours.
  std::vector<Column> extremes() const {
    const int smallest = middle_of(cells(order_[static_cast<std::size_t>(empty())]));
    const int largest = middle_of(cells(order_.back()));
    if (cells(smallest) == cells(largest)) return {{fmt::format("rank {}", largest), largest}};
    return {{fmt::format("rank {}, smallest", smallest), smallest},
            {fmt::format("rank {}, largest", largest), largest}};
  }

 private:
  int middle_of(Index size) const {
    std::vector<int> equal;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (cells(rank) == size) equal.push_back(rank);
    }
    return equal[equal.size() / 2];
  }

  const GridCuts& cuts_;
  std::vector<int> order_;  // ranks by rising size
};

/// Rows of a title and a text for each column.
class Table {
 public:
  Table(const std::string& title, const std::vector<Column>& columns) {
    row(title, columns, [](const Column& s) { return s.title; });
  }
  template <typename Range, typename Text>
  void row(const std::string& title, const Range& values, const Text& text) {
    text_ += fmt::format("{:<{}}", title, std::empty(values) ? 0 : 40);
    for (const auto& value : values) text_ += fmt::format("{:>28}", text(value));
    text_ += "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string box_text(const TrainingPlan& p, const Boxes& boxes, int rank, const char* what = "") {
  const Index all = count(p.model.grid), own = boxes.cells(rank);
  return fmt::format("  rank {:<6} {:<36} {:>12} cells {:>7.2f} %{}\n", rank, to_string(box_of(p.cuts, rank)),
                     own, 100 * static_cast<double>(own) / static_cast<double>(all), what);
}

std::string partition_text(const TrainingPlan& p, const Boxes& boxes) {
  std::string text =
      fmt::format("mesh     {}: {} ranks, {} in each domain group\n",
                  to_string(std::span<const MeshAxis>(p.axes)), p.ddp() * boxes.ranks(), boxes.ranks());
  for (std::size_t a = 0; a < p.cuts.size(); ++a) {
    const std::string at = p.cuts[a].parts() > kMostBoxes ? fmt::format("cut into {}", p.cuts[a].parts())
                           : p.cuts[a].parts() > 1        ? "cut at " + to_string(p.cuts[a])
                                                          : "whole";
    text += fmt::format("axis     {}: {} cells, {}\n", p.axis_names[a], p.cuts[a].extent(), at);
  }
  text += "\nboxes of a domain group\n";
  if (boxes.ranks() <= kMostBoxes) {
    for (int rank = 0; rank < boxes.ranks(); ++rank) text += box_text(p, boxes, rank);
  } else {
    const std::vector<Column> ends = boxes.extremes();
    text += box_text(p, boxes, ends.front().rank, ends.size() > 1 ? "  smallest" : "  as all others");
    if (ends.size() > 1) {
      text += box_text(p, boxes, boxes.median(), "  median");
      text += box_text(p, boxes, ends.back().rank, "  largest");
    }
  }
  if (boxes.empty() > 0)
    text += fmt::format("  {} of {} ranks have no cells\n", boxes.empty(), boxes.ranks());
  return text;
}

std::string memory_text(const TrainingPlan& p, const std::vector<Column>& columns,
                        const std::vector<RankCost>& costs) {
  Table table("memory of a rank", columns);
  const auto row = [&](const std::string& title, const auto& bytes) {
    table.row("  " + title, costs,
              [&](const RankCost& c) { return bytes_text(static_cast<double>(bytes(c))); });
  };
  row("parameters", [](const RankCost& c) { return c.parameter_bytes; });
  row("gradients", [](const RankCost& c) { return c.gradient_bytes(); });
  row(fmt::format("optimiser ({})", p.optimizer), [](const RankCost& c) { return c.optimizer_bytes; });
  row("moving averages", [](const RankCost& c) { return c.average_bytes; });
  row("sample", [](const RankCost& c) { return c.sample_bytes; });
  const auto activations = [&](bool recompute, const char* name) {
    const std::string chosen = recompute == p.model.recompute ? " *" : "";
    table.row(fmt::format("  train.recompute: {}{}", name, chosen), std::vector<RankCost>(),
              [](const RankCost&) { return ""; });
    row("  kept for the backward pass", [&](const RankCost& c) { return c.sample(recompute).kept_bytes; });
    row("    of these halos and copies with them",
        [&](const RankCost& c) { return c.sample(recompute).halo_bytes; });
    row("  forward and backward, most at once",
        [&](const RankCost& c) { return c.sample(recompute).peak_bytes; });
    row("  total on the device", [&](const RankCost& c) { return c.device_bytes(recompute); });
  };
  activations(false, "none");
  activations(true, "blocks");
  const auto pipeline = [&](const RankCost& c) {
    const Index step = c.cells * p.fields * static_cast<Index>(sizeof(float));
    return static_cast<Index>(kSamplesAhead) * c.sample_bytes +
           std::min(static_cast<Index>(p.cache_bytes), p.steps * step);
  };
  row("input pipeline, on the host", pipeline);
  return table.text();
}

/// Operations of every rank, each shape of box counted once.
double balance(const TrainingPlan& p, const Boxes& boxes) {
  std::map<std::vector<Index>, double> by_shape;
  double sum = 0, largest = 0;
  for (int rank = 0; rank < boxes.ranks(); ++rank) {
    const Shape shape = box_of(p.cuts, rank).shape();
    const std::vector<Index> key(shape.begin(), shape.end());
    auto at = by_shape.find(key);
    if (at == by_shape.end()) {
      const SampleCost c = sample_cost(p.model, p.cuts, rank, p.terms);
      at = by_shape.emplace(key, c.forward_operations + c.backward_operations).first;
    }
    sum += at->second;
    largest = std::max(largest, at->second);
  }
  return sum > 0 ? largest * boxes.ranks() / sum : 1;
}

const SampleCost& chosen(const TrainingPlan& p, const RankCost& c) {
  return c.sample(p.model.recompute);
}

std::string operations_table(const TrainingPlan& p, const Boxes& boxes, const std::vector<Column>& columns,
                             const std::vector<RankCost>& costs) {
  Table table(fmt::format("operations of an update ({} x 1 sample)", p.accumulate), columns);
  const auto times = static_cast<double>(p.accumulate);
  table.row("  forward", costs,
            [&](const RankCost& c) { return operations_text(times * chosen(p, c).forward_operations); });
  table.row("  backward", costs,
            [&](const RankCost& c) { return operations_text(times * chosen(p, c).backward_operations); });
  return table.text() + fmt::format("  load: largest over mean {:.3f}\n", balance(p, boxes));
}

/// What the rank sends in an update, by operator and communication.
TrafficTable traffic_of(const TrainingPlan& p, const RankCost& c, int domain_ranks) {
  TrafficTable table;
  for (const TrafficTable* part : {&chosen(p, c).forward, &chosen(p, c).backward}) {
    for (const auto& [key, t] : *part) {
      table[key].calls += p.accumulate * t.calls;
      table[key].bytes += p.accumulate * t.bytes;
    }
  }
  Traffic& reduced = table[{"gradient reducer", "all_reduce"}];
  if (domain_ranks * p.ddp() > 1) reduced = c.gradients;
  if (p.ddp() > 1) {
    reduced.calls += c.sharded_gradients.calls;
    reduced.bytes += c.sharded_gradients.bytes;
  }
  if (reduced.calls == 0) table.erase({"gradient reducer", "all_reduce"});
  return table;
}

std::string traffic_text(const TrainingPlan& p, const Boxes& boxes, const std::vector<Column>& columns,
                         const std::vector<RankCost>& costs) {
  std::vector<TrafficTable> tables;
  TrafficTable rows;
  for (const RankCost& c : costs) {
    tables.push_back(traffic_of(p, c, boxes.ranks()));
    rows.insert(tables.back().begin(), tables.back().end());
  }
  if (rows.empty()) return "traffic of an update: none\n";
  Table table("sent by a rank in an update", columns);
  for (const auto& [key, unused] : rows) {
    table.row(fmt::format("  {} {}", key.first, key.second), tables, [&key = key](const TrafficTable& t) {
      const auto at = t.find(key);
      return at == t.end() ? std::string("-")
                           : fmt::format("{} x, {}", at->second.calls,
                                         bytes_text(static_cast<double>(at->second.bytes)));
    });
  }
  return table.text();
}

}  // namespace

std::string plan_text(const TrainingPlan& p) {
  const Boxes boxes(p.cuts);
  const std::vector<Column> columns = boxes.extremes();
  std::vector<RankCost> costs;
  for (const Column& s : columns) costs.push_back(cost_of(p, s.rank));
  const Index seasonal = p.terms.seasonal * count(p.model.grid) * p.model.out_channels;
  std::string text =
      fmt::format("plan     nothing is run\nmodel    {}, {} parameters, {} input and {} output channels\n",
                  p.model_type, costs.back().plain + seasonal, p.model.in_channels, p.model.out_channels);
  text += partition_text(p, boxes) + "\n";
  text += memory_text(p, columns, costs) + "\n";
  text += operations_table(p, boxes, columns, costs) + "\n";
  text += traffic_text(p, boxes, columns, costs);
  text.pop_back();
  return text;
}

}  // namespace tessera
