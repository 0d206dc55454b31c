#include "app/rebalance.hpp"

#include <algorithm>

#include "parallel/comm_stats.hpp"

namespace tessera {
namespace {

/// Largest time of the parts of axis `axis` over the ranks that have them: a part is done when all of them
/// are.
std::vector<double> by_part(const Layout& grid, int axis, const std::vector<double>& seconds) {
  const Mesh& mesh = grid.mesh();
  std::vector<double> parts(static_cast<std::size_t>(mesh.axis_size(axis)), 0.0);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    double& part = parts[static_cast<std::size_t>(mesh.coords(rank)[axis])];
    part = std::max(part, seconds[static_cast<std::size_t>(rank)]);
  }
  return parts;
}

/// The largest time under other cut points, if time is in proportion to cells.
double predicted(const Partition& before, const Partition& after, const std::vector<double>& seconds) {
  double slowest = 0;
  for (int p = 0; p < before.parts(); ++p) {
    const Index had = before.range(p).size();
    if (had == 0) continue;
    const double per_cell = seconds[static_cast<std::size_t>(p)] / static_cast<double>(had);
    slowest = std::max(slowest, per_cell * static_cast<double>(after.range(p).size()));
  }
  return slowest;
}

}  // namespace

Rebalance::Rebalance(std::optional<MeasuredPartition> wish, Shape unit, Index first_step)
    : wish_(std::move(wish)), unit_(std::move(unit)) {
  if (wish_) next_ = first_step + wish_->after;
}

void Rebalance::start() {
  if (!wish_) return;
  start_ = std::chrono::steady_clock::now();
  waited_ = CommStats::global().seconds();
}

void Rebalance::stop() {
  if (!wish_) return;
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  seconds_.push_back(all - (CommStats::global().seconds() - waited_));
}

std::optional<Layout> Rebalance::due(Index step, Communicator& world, const Layout& grid) {
  if (!wish_ || step < next_ || seconds_.empty()) return std::nullopt;
  next_ = wish_->every > 0 ? step + wish_->every : std::numeric_limits<Index>::max();
  // The median leaves out updates that were held up by something else.
  std::nth_element(seconds_.begin(), seconds_.begin() + static_cast<std::ptrdiff_t>(seconds_.size() / 2),
                   seconds_.end());
  const double median = seconds_[seconds_.size() / 2];
  seconds_.clear();
  const int domain_ranks = grid.mesh().size();
  // The slowest replica of each part counts. World ranks are (ddp, domain) in row-major order.
  std::vector<double> slowest(static_cast<std::size_t>(domain_ranks), 0.0);
  const std::vector<double> all = world.all_gather_value(median);
  for (std::size_t r = 0; r < all.size(); ++r) {
    double& s = slowest[r % slowest.size()];
    s = std::max(s, all[r]);
  }
  Layout result = grid;
  bool moves = false;
  for (int a = 0; a < grid.mesh().axes(); ++a) {
    if (!wish_->axes[static_cast<std::size_t>(a)]) continue;
    const Partition& before = grid.partition(a);
    const std::vector<double> seconds = by_part(grid, a, slowest);
    const Partition after = Partition::balanced(before, seconds, unit_[a]);
    constexpr double worthwhile = 0.95;
    if (predicted(before, after, seconds) > worthwhile * *std::max_element(seconds.begin(), seconds.end()))
      continue;
    result = result.with_placement(a, grid.placement(a), after);
    moves = true;
  }
  return moves ? std::optional(result) : std::nullopt;
}

}  // namespace tessera
