#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// A table of texts: the first columns stand at the left, the others (numbers) at the right.
class TextTable {
 public:
  explicit TextTable(std::size_t left = 99) : left_(left) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Lines that start with two spaces and end with a line feed.
  std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()), 0);
      for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t c = 0; c < row.size(); ++c) {
        const std::string room(widths[c] - width(row[c]), ' ');
        line += "  " + (c < left_ ? row[c] + room : room + row[c]);
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  /// Letters of a UTF-8 text.
  static std::size_t width(const std::string& text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  }

  std::size_t left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera
