#include "app/stop_control.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <utility>

#include "parallel/error.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

constexpr std::array kStopSignals{SIGTERM, SIGINT};
constexpr std::array kDumpSignals{SIGUSR1, SIGHUP};

// The walltime counts from the start of the program.
const auto program_start = std::chrono::steady_clock::now();

// Signal handlers can reach globals alone.
std::atomic<bool> stop_asked{false};
std::atomic<bool> dump_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);
std::array<struct sigaction, kStopSignals.size() + kDumpSignals.size()> former_actions;

extern "C" void ask_stop(int signal_number) {
  const bool again = stop_asked.exchange(true);
  if (again && signal_number == SIGINT) {  // an impatient user: end at once
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

extern "C" void ask_dump(int) {
  dump_asked.store(true);
}

void install(int signal_number, void (*handler)(int), struct sigaction& former) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, &former);
}

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

StopControl::StopControl(CommPtr world, fs::path folder, std::optional<double> walltime)
    : world_(std::move(world)),
      folder_(std::move(folder)),
      walltime_(walltime),
      margin_(std::min(5.0, 0.05 * walltime.value_or(0))),
      last_poll_(std::chrono::steady_clock::now()) {
  stop_asked = false;
  dump_asked = false;
  std::size_t i = 0;
  for (int s : kStopSignals) install(s, ask_stop, former_actions[i++]);
  for (int s : kDumpSignals) install(s, ask_dump, former_actions[i++]);
}

StopControl::~StopControl() {
  std::size_t i = 0;
  for (int s : kStopSignals) sigaction(s, &former_actions[i++], nullptr);
  for (int s : kDumpSignals) sigaction(s, &former_actions[i++], nullptr);
}

StopControl::Wish StopControl::wish_of_files() {
  const auto now = std::chrono::steady_clock::now();
  if (last_look_ != std::chrono::steady_clock::time_point{} && seconds_between(last_look_, now) < 1) {
    return Wish::carry_on;
  }
  last_look_ = now;
  constexpr std::pair<const char*, Wish> files[] = {{"stop_run", Wish::stop},
                                                    {"dump_and_stop", Wish::checkpoint_and_stop},
                                                    {"dump_and_continue", Wish::checkpoint}};
  for (const auto& [name, wish] : files) {
    std::error_code error;
    if (fs::remove(folder_ / name, error)) return wish;
  }
  return Wish::carry_on;
}

bool StopControl::out_of_time() {
  const auto now = std::chrono::steady_clock::now();
  longest_step_ = std::max(longest_step_, seconds_between(last_poll_, now));
  last_poll_ = now;
  return walltime_ && seconds_between(program_start, now) + longest_step_ + margin_ > *walltime_;
}

StopControl::Wish StopControl::poll() {
  Wish wish = world_->rank() == 0 ? wish_of_files() : Wish::carry_on;
  if (stop_asked.exchange(false) || out_of_time()) wish = std::max(wish, Wish::checkpoint_and_stop);
  if (dump_asked.exchange(false)) wish = std::max(wish, Wish::checkpoint);
  return static_cast<Wish>(world_->all_reduce_value(static_cast<std::int32_t>(wish), ReduceOp::max));
}

}  // namespace tessera
