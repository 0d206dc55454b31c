#include "app/bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "parallel/memory.hpp"

namespace tessera::bench {
namespace {

constexpr double kShortest = 1e-3;  ///< s between two barriers: much more than the barrier takes
constexpr int kMostRuns = 10000;    ///< between two barriers
constexpr int kMostRepeats = 200;

/// Seconds of `runs` runs, equal on all ranks.
double time_of(Communicator& group, const std::function<void()>& body, int runs) {
  group.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) body();
  const std::chrono::duration<double> own = std::chrono::steady_clock::now() - begin;
  return group.all_reduce_value(own.count(), ReduceOp::max);
}

}  // namespace

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Timing measure(Communicator& group, const std::function<void()>& body, const MeasureOptions& options) {
  time_of(group, body, 1);  // touches pages, compiles primitives
  const double once = std::max(time_of(group, body, 1), 1e-9);
  const int runs = static_cast<int>(std::clamp(std::ceil(kShortest / once), 1.0, double{kMostRuns}));
  const double fitting = options.seconds / (once * runs);
  const int repeats =
      options.repeats > 0
          ? options.repeats
          : static_cast<int>(std::clamp(fitting, double(options.fewest), double{kMostRepeats}));
  const std::size_t held = memory_use(MemorySpace::device).current;
  reset_memory_peak(MemorySpace::device);
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) times.push_back(time_of(group, body, runs) / runs);
  const std::size_t peak = memory_use(MemorySpace::device).peak;
  std::sort(times.begin(), times.end());
  const auto extra = static_cast<std::int64_t>(peak - std::min(held, peak));
  return {quantile(times, 0.5), quantile(times, 0.25), quantile(times, 0.75), repeats,
          static_cast<std::size_t>(group.all_reduce_value(extra, ReduceOp::max))};
}

}  // namespace tessera::bench
