#include "tests/property/watchdog.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "parallel/error.hpp"

namespace tessera::property {
namespace {

char g_case[2048];
struct sigaction g_before[NSIG];

/// Says what was under way and leaves the rest to who handles the signal otherwise.
void name_case(int signal) {
  if (write(STDOUT_FILENO, g_case, std::strlen(g_case)) < 0) std::_Exit(static_cast<int>(ExitCode::internal));
  sigaction(signal, &g_before[signal], nullptr);
  raise(signal);
}

}  // namespace

Watchdog::Watchdog(int rank, std::chrono::seconds limit)
    : rank_(rank), limit_(limit), what_("start"), since_(std::chrono::steady_clock::now()) {
  struct sigaction action = {};
  action.sa_handler = name_case;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) sigaction(signal, &action, &g_before[signal]);
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
  std::snprintf(g_case, sizeof g_case, "FAILED rank %d: crashed: %s\n", rank_, what.c_str());
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
