#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

/// Calls, bytes and seconds of one kind of communication.
struct CommCount {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< payload that this rank sent or contributed
  double seconds = 0;       ///< time spent inside the calls, waits included
};

/// Communication of this process since the last reset, by operation ("send", "all_reduce", ...) and by the
/// tensor operator on whose behalf it happened (see CommScope; "" outside any). Groups of one rank do not
/// communicate and are not counted.
class CommStats {
 public:
  using Key = std::pair<std::string, std::string>;  // (tensor operator, operation)

  /// Booked, without bytes, where an operator had no sharding rule and its operands were made whole.
  static constexpr std::string_view kFallback = "fallback";

  static CommStats& global();

  /// Books on the tensor operator of the innermost CommScope of the calling thread. Safe to call from several
  /// threads.
  void record(std::string_view operation, std::uint64_t bytes, double seconds, std::uint64_t calls = 1);
  void reset();
  const std::map<Key, CommCount>& counts() const { return counts_; }
  /// Sum over tensor operators of one operation.
  CommCount total(std::string_view operation) const;
  /// Time inside all calls.
  double seconds() const;
  /// Calls of every operation except point-to-point messages.
  std::uint64_t collective_calls() const;
  /// A table for people.
  std::string report() const;

 private:
  mutable std::mutex mutex_;
  std::map<Key, CommCount> counts_;
};

/// While it lives, communication is booked on the named tensor operator.
class CommScope {
 public:
  explicit CommScope(std::string_view tensor_operator);
  ~CommScope();
  CommScope(const CommScope&) = delete;
  CommScope& operator=(const CommScope&) = delete;

  /// The name of the innermost scope of the calling thread.
  static const std::string& current();

 private:
  std::string outer_;
};

}  // namespace tessera
