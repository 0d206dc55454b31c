#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

namespace tessera {

/// Where the time of this process goes, operator by operator: seconds of each one's forward and backward
/// passes without those of the operators that it calls. Measures only between enable() and disable().
class OperatorClock {
 public:
  struct Pass {
    std::uint64_t calls = 0;
    double seconds = 0;
  };
  struct Entry {
    Pass forward, backward;
  };

  static OperatorClock& global();

  /// Starts anew.
  void enable();
  void disable();
  bool is_enabled() const { return enabled_; }
  /// Seconds since enable().
  double elapsed() const;
  void record(std::string_view op, bool backward, double seconds);
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  /// A table for people, the costliest operators first; the rest of the time stands under "other".
  std::string report() const;

 private:
  bool enabled_ = false;
  std::chrono::steady_clock::time_point start_;
  std::map<std::string, Entry, std::less<>> entries_;
};

/// While it lives, time goes to this operator, unless another timer of the same thread lives inside. On a
/// device it waits for the kernels.
class OperatorTimer {
 public:
  OperatorTimer(std::string_view op, bool backward);
  ~OperatorTimer();
  OperatorTimer(const OperatorTimer&) = delete;
  OperatorTimer& operator=(const OperatorTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  std::string_view op_;
  bool backward_, runs_;
  OperatorTimer* outer_ = nullptr;
  Clock::time_point since_;
  double seconds_ = 0;
};

}  // namespace tessera
