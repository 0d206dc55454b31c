#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tessera::property {

/// Ends the program, naming what was under way, where it takes longer than the limit: ranks that wait for
/// messages that nobody sends. Names it, too, where the program crashes.
class Watchdog {
 public:
  Watchdog(int rank, std::chrono::seconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The clock starts again.
  void watch(std::string what);

 private:
  void run();

  int rank_;
  std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  std::chrono::steady_clock::time_point since_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tessera::property
