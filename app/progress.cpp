#include "app/progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace tessera {
namespace {

constexpr double kLiveSeconds = 0.1;  // between two refreshes of a terminal
constexpr double kPlainSeconds = 5;   // between two lines of a log

/// Whether lines written to stderr reach a terminal: its own, or that of the launcher on this machine, which
/// passes on what it gets through a pipe.
bool reaches_terminal() {
  if (isatty(STDERR_FILENO)) return true;
  if (!std::getenv("OMPI_COMM_WORLD_RANK") && !std::getenv("PMI_RANK")) return false;
  std::error_code error;
  const auto target =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", getppid(), STDERR_FILENO), error);
  return !error && target.string().starts_with("/dev/pts/");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Progress::Progress(std::string what, Index total, bool show)
    : what_(std::move(what)),
      total_(total),
      show_(show),
      terminal_(show && reaches_terminal()),
      start_(std::chrono::steady_clock::now()),
      last_print_() {}

Progress::~Progress() {
  finish();
}

void Progress::update(Index step, const std::vector<std::pair<std::string, std::string>>& values) {
  if (!show_) return;
  if (first_step_ < 0) {
    first_step_ = step;
    start_ = std::chrono::steady_clock::now();
  }
  last_step_ = step;
  values_.clear();
  for (const auto& [name, text] : values) values_ += "  " + name + " " + text;
  printed_ = false;
  const bool first = last_print_ == std::chrono::steady_clock::time_point{};
  if (first || seconds_since(last_print_) >= (terminal_ ? kLiveSeconds : kPlainSeconds)) print();
}

std::string Progress::line() const {
  std::string text = fmt::format("{} {}/{}{}", what_, last_step_, total_, values_);
  const double seconds = seconds_since(start_);
  if (last_step_ > first_step_ && seconds > 0) {
    const double rate = static_cast<double>(last_step_ - first_step_) / seconds;
    text += fmt::format("  {:.3g}/s", rate);
    if (last_step_ < total_) text += "  ETA " + clock_text(static_cast<double>(total_ - last_step_) / rate);
  }
  return text;
}

void Progress::print() {
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", line(), terminal_ ? "" : "\n");
  std::fflush(stderr);
  last_print_ = std::chrono::steady_clock::now();
  printed_ = true;
}

void Progress::note(const std::string& text) {
  if (!show_) return;
  fmt::print(stderr, "{}{}\n", terminal_ ? "\r\033[K" : "", text);
  if (terminal_ && first_step_ >= 0) print();
}

void Progress::finish() {
  if (!show_) return;
  if (first_step_ >= 0 && !printed_) print();
  if (first_step_ >= 0 && terminal_) fmt::print(stderr, "\n");
  show_ = false;
}

}  // namespace tessera
