#include "solver/tensor/operator_clock.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <Kokkos_Core.hpp>

namespace tessera {
namespace {

thread_local OperatorTimer* t_timer = nullptr;

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

OperatorClock& OperatorClock::global() {
  static OperatorClock clock;
  return clock;
}

void OperatorClock::enable() {
  entries_.clear();
  enabled_ = true;
  start_ = std::chrono::steady_clock::now();
}

void OperatorClock::disable() {
  enabled_ = false;
}

double OperatorClock::elapsed() const {
  return seconds_between(start_, std::chrono::steady_clock::now());
}

void OperatorClock::record(std::string_view op, bool backward, double seconds) {
  auto at = entries_.find(op);
  if (at == entries_.end()) at = entries_.emplace(std::string(op), Entry()).first;
  Pass& pass = backward ? at->second.backward : at->second.forward;
  ++pass.calls;
  pass.seconds += seconds;
}

std::string OperatorClock::report() const {
  using Row = std::pair<std::string, Entry>;
  std::vector<Row> rows(entries_.begin(), entries_.end());
  const auto total = [](const Row& r) { return r.second.forward.seconds + r.second.backward.seconds; };
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return total(a) > total(b); });
  const double all = elapsed();
  std::string text = "time of the first rank by operator, waits included\n";
  text += fmt::format("{:<26}{:>10}{:>12}{:>10}{:>12}{:>9}\n", "operator", "forward", "seconds", "backward",
                      "seconds", "share");
  double other = all;
  for (const Row& row : rows) {
    const Entry& e = row.second;
    other -= total(row);
    text += fmt::format("{:<26}{:>10}{:>12.4f}{:>10}{:>12.4f}{:>7.1f} %\n", row.first, e.forward.calls,
                        e.forward.seconds, e.backward.calls, e.backward.seconds, 100 * total(row) / all);
  }
  return text + fmt::format("{:<26}{:>22.4f}{:>31.1f} %\n{:<26}{:>22.4f}\n", "other", other,
                            100 * other / all, "all", all);
}

OperatorTimer::OperatorTimer(std::string_view op, bool backward)
    : op_(op), backward_(backward), runs_(OperatorClock::global().is_enabled()) {
  if (!runs_) return;
  Kokkos::fence();
  since_ = Clock::now();
  outer_ = std::exchange(t_timer, this);
  if (outer_) outer_->seconds_ += seconds_between(outer_->since_, since_);
}

OperatorTimer::~OperatorTimer() {
  if (!runs_) return;
  Kokkos::fence();
  const Clock::time_point now = Clock::now();
  OperatorClock::global().record(op_, backward_, seconds_ + seconds_between(since_, now));
  t_timer = outer_;
  if (outer_) outer_->since_ = now;
}

}  // namespace tessera
