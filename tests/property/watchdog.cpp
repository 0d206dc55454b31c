#include "tests/property/watchdog.hpp"

#include <cstdio>
#include <cstdlib>

#include "parallel/error.hpp"

namespace tessera::property {

Watchdog::Watchdog(int rank, std::chrono::seconds limit)
    : rank_(rank), limit_(limit), what_("start"), since_(std::chrono::steady_clock::now()) {
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
  since_ = std::chrono::steady_clock::now();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    if (std::chrono::steady_clock::now() - since_ > limit_) {
      std::printf("FAILED rank %d: no end after %lld s: %s\n", rank_, static_cast<long long>(limit_.count()),
                  what_.c_str());
      std::fflush(stdout);
      std::_Exit(static_cast<int>(ExitCode::communication));
    }
    changed_.wait_for(lock, std::chrono::seconds(1));
  }
}

}  // namespace tessera::property
