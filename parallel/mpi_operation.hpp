#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "parallel/communicator.hpp"
#include "parallel/sequence_board.hpp"

// Internal to the MPI backend: a group of ranks, and operations under way on it.
namespace tessera {

/// What operations need of their communicator; they keep it alive.
struct MpiGroup {
  MpiGroup(MPI_Comm group_comm, std::string group_name, std::shared_ptr<SequenceBoard> group_board,
           std::chrono::milliseconds group_timeout);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  /// Enters the next collective; returns its sequence number.
  std::int64_t next_sequence();
  /// "rank 2 (world rank 5)".
  std::string rank_name(int rank) const;
  /// Which ranks have not entered collective number `sequence`, in words.
  std::string missing_ranks(std::int64_t sequence) const;

  MPI_Comm comm;
  MPI_Comm duplicate = MPI_COMM_NULL;  // for other libraries
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<int> world_ranks;
  std::shared_ptr<SequenceBoard> board;
  std::vector<int> slots;  // on the board, of every rank
  std::int64_t sequence = 0;
  std::chrono::milliseconds timeout;
};

/// Throws an Error (communication) unless an MPI call succeeded.
void check_mpi(int result, const char* call, const MpiGroup& group);

/// An operation under way: a series of phases, each a set of MPI requests. Progress is made in test() and
/// wait() only.
class MpiOperation : public Request::State {
 public:
  /// A collective gets the group's next sequence number. `bytes` is booked on `operation` at once.
  static constexpr std::int64_t kNoSequence = 0;
  MpiOperation(std::shared_ptr<MpiGroup> group, std::string operation, std::int64_t sequence);

  bool test() final;
  void wait() final;

  void send(const void* data, std::size_t bytes, int to, int tag);
  void receive(void* data, std::size_t bytes, int from, int tag);
  void add(MPI_Request request) { requests_.push_back(request); }
  /// The peer to name in errors of a message.
  void set_peer(int rank, int tag) {
    peer_ = rank;
    tag_ = tag;
  }
  /// Books time spent in starting the operation.
  void set_started(std::uint64_t calls, std::uint64_t bytes,
                   std::chrono::steady_clock::time_point begin) const;

  const MpiGroup& group() const { return *group_; }
  /// A tag that only phase `phase` (0, 1) of this collective uses, so that ranks whose collectives differ
  /// wait for each other until the timeout instead of taking each other's messages.
  int internal_tag(int phase) const;

 protected:
  /// Called when all requests are complete: posts those of the next phase and returns true, or returns false
  /// at the end.
  virtual bool next_phase() { return false; }

 private:
  bool progress();
  [[noreturn]] void time_out(std::chrono::milliseconds waited) const;

  std::shared_ptr<MpiGroup> group_;
  std::string operation_;
  std::string scope_;
  std::int64_t sequence_;
  int peer_ = -1;
  int tag_ = 0;
  bool done_ = false;
  std::vector<MPI_Request> requests_;
};

/// Tags below are the caller's, the others belong to collectives.
inline constexpr int kUserTags = 1 << 20;

}  // namespace tessera
