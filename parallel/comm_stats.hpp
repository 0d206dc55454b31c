#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

class Communicator;

/// Calls, bytes and seconds of one kind of communication.
struct CommCount {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< payload that this rank sent or contributed
  double seconds = 0;       ///< time spent inside the calls, waits included
};

/// Communication of this process since the last reset, by operation ("send", "all_reduce", ...) and by the
/// tensor operator on whose behalf it happened (see CommScope; "" outside any): "conv" in the forward pass,
/// "conv backward" in the backward pass. Groups of one rank do not communicate and are not counted.
class CommStats {
 public:
  using Key = std::pair<std::string, std::string>;  // (tensor operator, operation)
  using Counts = std::map<Key, CommCount>;

  /// Booked, without bytes, where an operator had no sharding rule and its operands were made whole.
  static constexpr std::string_view kFallback = "fallback";

  static CommStats& global();

  /// Books on the tensor operator of the calling thread's CommScope. Safe to call from several threads.
  void record(std::string_view operation, std::uint64_t bytes, double seconds, std::uint64_t calls = 1);
  void reset();
  const Counts& counts() const { return counts_; }
  /// Sum over tensor operators of one operation.
  CommCount total(std::string_view operation) const;
  /// Time inside all calls.
  double seconds() const;
  /// Calls of every operation except point-to-point messages.
  std::uint64_t collective_calls() const;
  /// A table for people of this rank's counts, or of those of all ranks of `comm`; collective, the same text
  /// on every rank, not counted itself.
  std::string report() const;
  std::string report(Communicator& comm) const;

 private:
  mutable std::mutex mutex_;
  Counts counts_;
};

/// While it lives, communication is booked on the named tensor operator; unless a scope is there already: an
/// operator answers for all that it causes, also through other operators.
class CommScope {
 public:
  explicit CommScope(std::string_view tensor_operator);
  /// Takes the place of the scope that is there, until it dies: for work on somebody else's behalf (an
  /// operator's backward pass, a reduction that was started earlier). "": none.
  static CommScope in_place(std::string_view tensor_operator);
  ~CommScope();
  CommScope(const CommScope&) = delete;
  CommScope& operator=(const CommScope&) = delete;

  /// The name on which the calling thread's communication is booked.
  static const std::string& current();

 private:
  CommScope(std::string_view tensor_operator, bool replaces);

  std::string outer_;
  bool replaces_;
};

}  // namespace tessera
