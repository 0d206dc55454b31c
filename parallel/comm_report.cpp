// The table of CommStats.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "parallel/comm_stats.hpp"
#include "parallel/communicator.hpp"
#include "parallel/units.hpp"

namespace tessera {
namespace {

/// One operator and operation, over the ranks.
struct Row {
  CommStats::Key key;
  std::uint64_t calls = 0;       ///< of the rank with most
  std::uint64_t bytes = 0;       ///< of all ranks together
  std::uint64_t most_bytes = 0;  ///< of the rank with most
  double seconds = 0;            ///< of the rank with most
};

using Cells = std::array<std::string, 6>;

/// Many bytes first, then much time.
std::vector<Row> merged(const std::vector<CommStats::Counts>& ranks) {
  std::map<CommStats::Key, Row> rows;
  for (const CommStats::Counts& counts : ranks) {
    for (const auto& [key, count] : counts) {
      Row& row = rows[key];
      row.key = key;
      row.calls = std::max(row.calls, count.calls);
      row.bytes += count.bytes;
      row.most_bytes = std::max(row.most_bytes, count.bytes);
      row.seconds = std::max(row.seconds, count.seconds);
    }
  }
  std::vector<Row> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.seconds > b.seconds;
  });
  return sorted;
}

Row total_of(const std::vector<CommStats::Counts>& ranks) {
  Row total;
  total.key = {"total", ""};
  for (const CommStats::Counts& counts : ranks) {
    CommCount sum;
    for (const auto& [key, count] : counts) {
      sum.calls += count.calls;
      sum.bytes += count.bytes;
      sum.seconds += count.seconds;
    }
    total.calls = std::max(total.calls, sum.calls);
    total.bytes += sum.bytes;
    total.most_bytes = std::max(total.most_bytes, sum.bytes);
    total.seconds = std::max(total.seconds, sum.seconds);
  }
  return total;
}

Cells cells_of(const Row& row) {
  return {row.key.first.empty() ? "(outside operators)" : row.key.first,
          row.key.second,
          std::to_string(row.calls),
          bytes_text(static_cast<double>(row.most_bytes)),
          bytes_text(static_cast<double>(row.bytes)),
          time_text(row.seconds)};
}

std::string table(const std::vector<CommStats::Counts>& ranks) {
  const bool several = ranks.size() > 1;
  std::string text = several ? fmt::format(
                                   "communication of {} ranks; calls, bytes and time (waits included) "
                                   "of the rank with most of them, bytes of all ranks together\n",
                                   ranks.size())
                             : "communication of this rank; time includes waits\n";
  std::vector<Cells> lines{{"operator", "communication", "calls", "bytes", "all ranks", "time"}};
  for (const Row& row : merged(ranks)) lines.push_back(cells_of(row));
  if (lines.size() == 1) return text + "  none\n";
  lines.push_back(cells_of(total_of(ranks)));
  std::array<std::size_t, 6> width{};
  for (const Cells& line : lines) {
    for (std::size_t c = 0; c < width.size(); ++c) width[c] = std::max(width[c], line[c].size());
  }
  for (const Cells& line : lines) {
    std::string out = "  ";
    for (std::size_t c = 0; c < width.size(); ++c) {
      if (c == 4 && !several) continue;
      out += c < 2 ? fmt::format("{:<{}}  ", line[c], width[c]) : fmt::format("{:>{}}  ", line[c], width[c]);
    }
    text += out.substr(0, out.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

/// Lines of operator, operation, calls, bytes, seconds, separated by tabs.
std::string packed(const CommStats::Counts& counts) {
  std::string text;
  for (const auto& [key, c] : counts)
    text += fmt::format("{}\t{}\t{}\t{}\t{:a}\n", key.first, key.second, c.calls, c.bytes, c.seconds);
  return text;
}

CommStats::Counts unpacked(std::string_view text) {
  CommStats::Counts counts;
  const auto field = [&](char end) {
    const std::size_t at = text.find(end);
    const std::string value(text.substr(0, at));
    text.remove_prefix(at + 1);
    return value;
  };
  while (!text.empty()) {
    std::string op = field('\t'), operation = field('\t');
    CommCount& c = counts[{std::move(op), std::move(operation)}];
    c.calls = std::strtoull(field('\t').c_str(), nullptr, 10);
    c.bytes = std::strtoull(field('\t').c_str(), nullptr, 10);
    c.seconds = std::strtod(field('\n').c_str(), nullptr);
  }
  return counts;
}

}  // namespace

std::string CommStats::report() const {
  const std::lock_guard lock(mutex_);
  return table({counts_});
}

std::string CommStats::report(Communicator& comm) const {
  const std::string mine = [this] {
    const std::lock_guard lock(mutex_);
    return packed(counts_);
  }();
  const std::vector<Index> lengths = comm.all_gather_value(static_cast<Index>(mine.size()));
  Index total = 0;
  for (const Index n : lengths) total += n;
  std::string all(static_cast<std::size_t>(total), '\0');
  comm.all_gather(mine.data(), all.data(), lengths, DType::u8);
  std::vector<Counts> ranks;
  std::size_t at = 0;
  for (const Index n : lengths) {
    ranks.push_back(unpacked(std::string_view(all).substr(at, static_cast<std::size_t>(n))));
    at += static_cast<std::size_t>(n);
  }
  return table(ranks);
}

}  // namespace tessera
