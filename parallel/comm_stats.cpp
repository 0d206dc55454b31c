#include "parallel/comm_stats.hpp"

namespace tessera {
namespace {

thread_local std::string current_scope;

bool is_collective(std::string_view operation) {
  return operation != "send" && operation != CommStats::kFallback;
}

}  // namespace

CommStats& CommStats::global() {
  static CommStats stats;
  return stats;
}

void CommStats::record(std::string_view operation, std::uint64_t bytes, double seconds, std::uint64_t calls) {
  const std::lock_guard lock(mutex_);
  CommCount& count = counts_[Key{CommScope::current(), std::string(operation)}];
  count.calls += calls;
  count.bytes += bytes;
  count.seconds += seconds;
}

void CommStats::reset() {
  const std::lock_guard lock(mutex_);
  counts_.clear();
}

CommCount CommStats::total(std::string_view operation) const {
  const std::lock_guard lock(mutex_);
  CommCount sum;
  for (const auto& [key, count] : counts_) {
    if (key.second != operation) continue;
    sum.calls += count.calls;
    sum.bytes += count.bytes;
    sum.seconds += count.seconds;
  }
  return sum;
}

double CommStats::seconds() const {
  const std::lock_guard lock(mutex_);
  double sum = 0;
  for (const auto& [key, count] : counts_) sum += count.seconds;
  return sum;
}

std::uint64_t CommStats::collective_calls() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t calls = 0;
  for (const auto& [key, count] : counts_) calls += is_collective(key.second) ? count.calls : 0;
  return calls;
}

CommScope::CommScope(std::string_view tensor_operator, bool replaces) : replaces_(replaces) {
  if (!replaces_) return;
  outer_ = std::move(current_scope);
  current_scope = tensor_operator;
}

CommScope::CommScope(std::string_view tensor_operator) : CommScope(tensor_operator, current_scope.empty()) {}

CommScope CommScope::in_place(std::string_view tensor_operator) {
  return CommScope(tensor_operator, true);
}

CommScope::~CommScope() {
  if (replaces_) current_scope = std::move(outer_);
}

const std::string& CommScope::current() {
  return current_scope;
}

}  // namespace tessera
