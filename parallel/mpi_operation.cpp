#include "parallel/mpi_operation.hpp"

#include <sched.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <thread>

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

/// MPI counts are int; longer messages travel in pieces that both sides cut alike.
constexpr std::size_t kPiece = std::size_t{1} << 30;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string_view statistics_name(std::string_view operation) {
  return operation == "receive" ? "send" : operation;
}

/// Spins for a moment, then lets other ranks of the same core run, then sleeps.
class Backoff {
 public:
  void pause() {
    if (++rounds_ < 64) return;
    if (rounds_ < 4096) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  int rounds_ = 0;
};

std::string list_ranks(const MpiGroup& group, const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += (text.empty() ? "" : ", ") + group.rank_name(rank);
  return text;
}

}  // namespace

MpiGroup::MpiGroup(MPI_Comm group_comm, std::string group_name, std::shared_ptr<SequenceBoard> group_board,
                   std::chrono::milliseconds group_timeout)
    : comm(group_comm), name(std::move(group_name)), board(std::move(group_board)), timeout(group_timeout) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &members);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  world_ranks.resize(ranks.size());
  MPI_Group_translate_ranks(members, size, ranks.data(), world, world_ranks.data());
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  const int slot = size > 1 ? board->claim() : -1;
  slots.resize(ranks.size());
  check_mpi(MPI_Allgather(&slot, 1, MPI_INT, slots.data(), 1, MPI_INT, comm), "MPI_Allgather", *this);
}

MpiGroup::~MpiGroup() {
  board->release(slots[static_cast<std::size_t>(rank)]);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  if (duplicate != MPI_COMM_NULL) MPI_Comm_free(&duplicate);
  if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
}

std::int64_t MpiGroup::next_sequence() {
  board->store(slots[static_cast<std::size_t>(rank)], ++sequence);
  return sequence;
}

std::string MpiGroup::rank_name(int group_rank) const {
  const int world = world_ranks[static_cast<std::size_t>(group_rank)];
  return world == group_rank ? fmt::format("rank {}", group_rank)
                             : fmt::format("rank {} (world rank {})", group_rank, world);
}

std::string MpiGroup::missing_ranks(std::int64_t number) const {
  std::vector<int> missing;
  std::vector<int> silent;
  for (int r = 0; r < size; ++r) {
    const auto index = static_cast<std::size_t>(r);
    if (r == rank) continue;
    const std::optional<std::int64_t> reached = board->read(world_ranks[index], slots[index]);
    if (!reached) {
      silent.push_back(r);
    } else if (*reached < number) {
      missing.push_back(r);
    }
  }
  std::string text;
  if (!missing.empty()) text = "not arrived: " + list_ranks(*this, missing);
  if (!silent.empty()) text += (text.empty() ? "" : "; ") + ("state unknown: " + list_ranks(*this, silent));
  return text.empty() ? "all ranks have arrived, so a message was lost or the counts do not match" : text;
}

void check_mpi(int result, const char* call, const MpiGroup& group) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(ExitCode::communication, fmt::format("{} on '{}'", call, group.name), "{}", text);
}

MpiOperation::MpiOperation(std::shared_ptr<MpiGroup> group, std::string operation, std::int64_t sequence)
    : group_(std::move(group)),
      operation_(std::move(operation)),
      scope_(CommScope::current()),
      sequence_(sequence) {}

void MpiOperation::set_started(std::uint64_t calls, std::uint64_t bytes, Clock::time_point begin) const {
  if (group_->size == 1) return;
  CommStats::global().record(statistics_name(operation_), bytes, seconds_since(begin), calls);
}

int MpiOperation::internal_tag(int phase) const {
  constexpr std::string_view kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
  const std::int64_t kind = std::find(std::begin(kinds), std::end(kinds), operation_) - std::begin(kinds);
  return kUserTags + static_cast<int>((8 * sequence_ + 2 * kind + phase) % kUserTags);
}

void MpiOperation::send(const void* data, std::size_t bytes, int to, int tag) {
  const char* begin = static_cast<const char*>(data);
  for (std::size_t at = 0; at < std::max<std::size_t>(bytes, 1); at += kPiece) {
    const int length = static_cast<int>(std::min(kPiece, bytes - at));
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(begin + at, length, MPI_BYTE, to, tag, group_->comm, &requests_.back()), "MPI_Isend",
              *group_);
  }
}

void MpiOperation::receive(void* data, std::size_t bytes, int from, int tag) {
  char* begin = static_cast<char*>(data);
  for (std::size_t at = 0; at < std::max<std::size_t>(bytes, 1); at += kPiece) {
    const int length = static_cast<int>(std::min(kPiece, bytes - at));
    requests_.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Irecv(begin + at, length, MPI_BYTE, from, tag, group_->comm, &requests_.back()),
              "MPI_Irecv", *group_);
  }
}

bool MpiOperation::progress() {
  while (!done_) {
    int complete = 1;
    if (!requests_.empty()) {
      check_mpi(
          MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &complete, MPI_STATUSES_IGNORE),
          operation_.c_str(), *group_);
    }
    if (!complete) return false;
    requests_.clear();
    done_ = !next_phase();
  }
  return true;
}

bool MpiOperation::test() {
  return progress();
}

void MpiOperation::wait() {
  if (done_) return;
  const Clock::time_point begin = Clock::now();
  Backoff backoff;
  while (!progress()) {
    backoff.pause();
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    if (waited > group_->timeout) time_out(waited);
  }
  if (group_->size == 1) return;
  const CommScope scope = CommScope::in_place(scope_);
  CommStats::global().record(statistics_name(operation_), 0, seconds_since(begin), 0);
}

void MpiOperation::time_out(std::chrono::milliseconds waited) const {
  const double seconds = std::chrono::duration<double>(waited).count();
  if (sequence_ == kNoSequence) {
    fail(ExitCode::communication, fmt::format("{} on '{}'", operation_, group_->name),
         "no answer within {:.3g} s from {}, tag {}", seconds, group_->rank_name(peer_), tag_);
  }
  fail(ExitCode::communication, fmt::format("{} on '{}'", operation_, group_->name),
       "sequence number {}, timed out after {:.3g} s; {}", sequence_, seconds,
       group_->missing_ranks(sequence_));
}

}  // namespace tessera
