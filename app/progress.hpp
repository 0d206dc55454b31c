#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "parallel/inline_vector.hpp"

namespace tessera {

/// A live line on a terminal (step, values, rate, time left), plain lines every few seconds elsewhere,
/// nothing if `show` is false (quiet, or not rank 0). Writes to stderr.
class Progress {
 public:
  Progress(std::string what, Index total, bool show);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `values`: name and text, for example {"loss", "0.0123"}.
  void update(Index step, const std::vector<std::pair<std::string, std::string>>& values);
  /// Prints a line of its own above the live line.
  void note(const std::string& text);
  void finish();

 private:
  std::string line() const;
  void print();

  std::string what_;
  Index total_;
  bool show_, terminal_;
  bool printed_ = false;  ///< the last step has been printed
  Index first_step_ = -1, last_step_ = 0;
  std::string values_;
  std::chrono::steady_clock::time_point start_, last_print_;
};

/// "1:02:03" of seconds.
std::string clock_text(double seconds);

/// `history.jsonl`: one JSON object per line, appended and flushed. Only rank 0 writes.
class History {
 public:
  /// Values of one line; numbers are written so that they read back to the same bits, NaN and infinity as
  /// null.
  using Values = std::vector<std::pair<std::string, double>>;

  /// Continuing after `keep_steps` > 0 updates, lines of later steps and a line cut short (of a run that was
  /// killed) are dropped; 0 starts a new file.
  History(std::filesystem::path path, bool write, Index keep_steps);
  void append(Index step, const Values& values);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace tessera
