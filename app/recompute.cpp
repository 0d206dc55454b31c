#include "app/recompute.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>

#include "app/plan_cost.hpp"
#include "app/run_lock.hpp"
#include "parallel/units.hpp"

namespace tessera {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

/// Free memory of this host in bytes, page cache that can be dropped included; infinity where it is not told.
double free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kib = 0;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<double>::infinity();
}

/// A rank's share of four fifths of its host's free memory: the least over the ranks.
double share_of_memory(Communicator& world) {
  const std::vector<std::int64_t> hosts =
      world.all_gather_value(static_cast<std::int64_t>(std::hash<std::string>()(host_name())));
  const auto here = std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(world.rank())]);
  return world.all_reduce_value(0.8 * free_memory() / static_cast<double>(here), ReduceOp::min);
}

}  // namespace

RecomputeChoice choose_recompute(const Deck& deck, const TrainingPlan& plan, Communicator& world) {
  const auto wish = deck.get<std::string>("train.recompute");
  if (wish != "auto") return {wish == "blocks"};
  const auto given = deck.find<double>("train.memory");
  const double limit = given ? *given * kGib : share_of_memory(world);
  // Agreed on: what the library needs for itself may differ between processors.
  const double needed =
      world.all_reduce_value(static_cast<double>(largest_device_bytes(plan, false)), ReduceOp::max);
  const bool blocks = needed > limit;
  return {blocks, fmt::format("{} needed on a rank, {} there: blocks are {}recomputed", bytes_text(needed),
                              bytes_text(limit), blocks ? "" : "not ")};
}

}  // namespace tessera
