#include "app/bench/runner.hpp"

#include <chrono>
#include <thread>

namespace tessera::bench {
namespace {

constexpr int kDoneTag = 11;

/// Ends the sleep of the ranks from `ranks` on.
void wake(Communicator& world, int ranks, const Error* error = nullptr) {
  const std::string text = error ? error->what() : "";
  const std::int64_t ending[] = {error ? static_cast<std::int64_t>(error->code()) : 0,
                                 static_cast<std::int64_t>(text.size())};
  for (int r = ranks; r < world.size(); ++r) {
    world.send(ending, 2, DType::i64, r, kDoneTag);
    if (error) world.send(text.data(), ending[1], DType::u8, r, kDoneTag);
  }
}

/// Waits for the first rank without keeping a core busy, as a wait for a message would. Throws what the first
/// rank threw, so that all ranks fail alike.
void sleep_until_woken(Communicator& world) {
  std::int64_t ending[2] = {0, 0};
  Request request = world.start_receive(ending, 2, DType::i64, 0, kDoneTag);
  while (!request.test()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (ending[0] == 0) return;
  std::string text(static_cast<std::size_t>(ending[1]), ' ');
  world.receive(text.data(), ending[1], DType::u8, 0, kDoneTag);
  const std::size_t end = text.find("] ");
  throw Error(static_cast<ExitCode>(ending[0]), text.substr(1, end - 1), text.substr(end + 2));
}

}  // namespace

SpeedUp speed_up(const Row& row, const std::vector<Row>& rows) {
  const Row* base = nullptr;
  for (const Row& other : rows) {
    const bool same = other.c.kind == row.c.kind && other.c.model == row.c.model &&
                      other.c.size == row.c.size && other.c.precision == row.c.precision;
    if (same && (!base || other.c.ranks < base->c.ranks)) base = &other;
  }
  if (row.c.kind->messages || !base || base->c.ranks == row.c.ranks || base->rate() <= 0) return {};
  const double factor = row.rate() / base->rate();
  return {factor, factor * base->c.ranks / row.c.ranks};
}

Runner::Group& Runner::group_of(int ranks) {
  if (const auto known = groups_.find(ranks); known != groups_.end()) return known->second;
  const bool member = world_->rank() < ranks;
  Group group;
  group.comm = world_->split(member ? 0 : 1, world_->rank(), "bench");
  group.limits = std::make_unique<Limits>(group.comm, options_.measure);
  return groups_[ranks] = std::move(group);
}

Row Runner::measure_row(const Case& c, Group& group) const {
  const Place place{group.comm, *group.limits, options_.folder, options_.save};
  const Work work = c.kind->make(place, c);
  Row row;
  row.c = c;
  if (options_.communication) CommStats::global().reset();
  row.timing = measure(*group.comm, work.run, options_.measure);
  if (options_.communication) row.communication = CommStats::global().report();
  row.amount = work.amount;
  row.limit_name = work.limit_name;
  row.limit = work.limit ? work.limit() : 0;
  if (work.losses) row.losses = *work.losses;
  return row;
}

Row Runner::run(const Case& c) {
  Group& group = group_of(c.ranks);
  if (world_->rank() >= c.ranks) {
    sleep_until_woken(*world_);
    Row row;
    row.c = c;
    return row;
  }
  try {
    const Row row = measure_row(c, group);
    if (world_->rank() == 0) wake(*world_, c.ranks);
    return row;
  } catch (const Error& error) {
    if (world_->rank() == 0) wake(*world_, c.ranks, &error);
    throw;
  }
}

}  // namespace tessera::bench
