#include "parallel/communicator_mpi.hpp"

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "parallel/mpi_operation.hpp"
#include "parallel/reduce_blocks.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

/// Up to here a reduction costs latency only, and MPI's own takes a number of messages that grows with
/// log(ranks).
constexpr std::size_t kSmallReduction = 8192;

std::size_t bytes_of(Index count, DType type) {
  return static_cast<std::size_t>(count) * size_of(type);
}

std::vector<Index> offsets_of(std::span<const Index> counts) {
  std::vector<Index> offsets(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
  return offsets;
}

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::u8:
      return MPI_UINT8_T;
    default:
      return MPI_UINT16_T;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
    default:
      return MPI_SUM;
  }
}

/// A reduction of few elements, left to MPI.
class SmallAllReduce : public MpiOperation {
 public:
  SmallAllReduce(std::shared_ptr<MpiGroup> group, void* data, Index count, DType type, ReduceOp op)
      : MpiOperation(group, "all_reduce", group->next_sequence()),
        data_(data),
        count_(count),
        type_(type),
        op_(op) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), mpi_type(type), mpi_op(op),
                             group->comm, &request),
              "MPI_Iallreduce", *group);
    add(request);
  }

 private:
  bool next_phase() override {
    if (op_ == ReduceOp::avg) divide_block(data_, count_, type_, group().size);
    return false;
  }

  void* data_;
  Index count_;
  DType type_;
  ReduceOp op_;
};

/// Rank r reduces the r-th block of everyone, in rank order, then everyone gets the reduced blocks: each
/// element is computed once, so all ranks hold the same bits.
class LargeAllReduce : public MpiOperation {
 public:
  LargeAllReduce(std::shared_ptr<MpiGroup> group, void* data, Index count, DType type, ReduceOp op)
      : MpiOperation(group, "all_reduce", group->next_sequence()),
        data_(static_cast<char*>(data)),
        count_(count),
        type_(type),
        op_(op) {
    const std::size_t own = bytes_of(block(group->rank + 1) - block(group->rank), type);
    staging_ = MemoryBlock(MemorySpace::host, own * static_cast<std::size_t>(group->size - 1));
    char* to = static_cast<char*>(staging_.data());
    for (int r = 0; r < group->size; ++r) {
      contributions_.push_back(r == group->rank ? at(r) : to);
      if (r == group->rank) continue;
      receive(to, own, r, internal_tag(0));
      to += own;
    }
    for (int i = 1; i < group->size; ++i) {
      const int r = (group->rank + i) % group->size;
      send(at(r), size(r), r, internal_tag(0));
    }
  }

 private:
  Index block(int rank) const {
    return count_ / group().size * rank + std::min<Index>(rank, count_ % group().size);
  }
  char* at(int rank) const { return data_ + bytes_of(block(rank), type_); }
  std::size_t size(int rank) const { return bytes_of(block(rank + 1) - block(rank), type_); }

  bool next_phase() override {
    if (reduced_) return false;
    reduced_ = true;
    const int me = group().rank;
    reduce_blocks(contributions_, at(me), block(me + 1) - block(me), type_, op_, group().size);
    staging_ = MemoryBlock();
    for (int i = 1; i < group().size; ++i) {
      const int from = (me + group().size - i) % group().size;
      receive(at(from), size(from), from, internal_tag(1));
    }
    for (int i = 1; i < group().size; ++i) send(at(me), size(me), (me + i) % group().size, internal_tag(1));
    return true;
  }

  char* data_;
  Index count_;
  DType type_;
  ReduceOp op_;
  MemoryBlock staging_;
  std::vector<const void*> contributions_;
  bool reduced_ = false;
};

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<MpiGroup> group) : group_(std::move(group)) {}

  int rank() const override { return group_->rank; }
  int size() const override { return group_->size; }
  std::string_view name() const override { return group_->name; }
  int world_rank(int group_rank) const override {
    return group_->world_ranks[static_cast<std::size_t>(group_rank)];
  }
  MemorySpace space() const override { return MemorySpace::host; }

  Request start_send(const void* data, Index count, DType type, int to, int tag) override {
    check_peer("send", to, tag);
    const Clock::time_point begin = Clock::now();
    auto operation = std::make_shared<MpiOperation>(group_, "send", MpiOperation::kNoSequence);
    operation->set_peer(to, tag);
    operation->send(data, bytes_of(count, type), to, tag);
    operation->set_started(1, bytes_of(count, type), begin);
    return Request(operation);
  }

  Request start_receive(void* data, Index count, DType type, int from, int tag) override {
    check_peer("receive", from, tag);
    auto operation = std::make_shared<MpiOperation>(group_, "receive", MpiOperation::kNoSequence);
    operation->set_peer(from, tag);
    operation->receive(data, bytes_of(count, type), from, tag);
    return Request(operation);
  }

  Request start_all_reduce(void* data, Index count, DType type, ReduceOp op) override {
    if (size() == 1) return Request();
    const Clock::time_point begin = Clock::now();
    std::shared_ptr<MpiOperation> operation;
    // MPI has no bf16, and its extremes may lose a NaN.
    const bool mpi_reduces =
        type != DType::bf16 && !(is_floating(type) && (op == ReduceOp::max || op == ReduceOp::min));
    if (mpi_reduces && bytes_of(count, type) <= kSmallReduction) {
      operation = std::make_shared<SmallAllReduce>(group_, data, count, type, op);
    } else {
      operation = std::make_shared<LargeAllReduce>(group_, data, count, type, op);
    }
    operation->set_started(1, bytes_of(count, type), begin);
    return Request(operation);
  }

  void broadcast(void* data, Index count, DType type, int root) override;
  void all_gather(const void* from, void* to, std::span<const Index> counts, DType type) override;
  void reduce_scatter(const void* from, void* to, std::span<const Index> counts, DType type,
                      ReduceOp op) override;
  void all_to_all(const void* from, std::span<const Index> send_counts, void* to,
                  std::span<const Index> receive_counts, DType type) override;
  void barrier() override;

  CommPtr split(int color, int key, std::string name) override {
    barrier();  // waits with a timeout, which MPI_Comm_split cannot
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(group_->comm, color, key, &part), "MPI_Comm_split", *group_);
    return std::make_shared<MpiCommunicator>(
        std::make_shared<MpiGroup>(part, std::move(name), group_->board, group_->timeout));
  }

  void* native_handle() override {
    if (group_->duplicate == MPI_COMM_NULL) {
      check_mpi(MPI_Comm_dup(group_->comm, &group_->duplicate), "MPI_Comm_dup", *group_);
    }
    return &group_->duplicate;
  }

  void set_timeout(std::chrono::milliseconds timeout) override { group_->timeout = timeout; }

  SequenceBoard& board() const { return *group_->board; }

 private:
  void check_peer(const char* operation, int peer, int tag) const {
    require(peer >= 0 && peer < size(), operation, "rank {} of the {} ranks of '{}'", peer, size(), name());
    require(tag >= 0 && tag < kUserTags, operation, "tag {} outside [0, {})", tag, kUserTags);
  }
  void check_counts(const char* operation, std::span<const Index> counts) const {
    require(counts.size() == static_cast<std::size_t>(size()), operation,
            "{} counts for the {} ranks of '{}'", counts.size(), size(), name());
  }
  std::shared_ptr<MpiOperation> collective(const char* operation) const {
    return std::make_shared<MpiOperation>(group_, operation, group_->next_sequence());
  }

  std::shared_ptr<MpiGroup> group_;
};

void MpiCommunicator::broadcast(void* data, Index count, DType type, int root) {
  check_peer("broadcast", root, 0);
  if (size() == 1) return;
  const Clock::time_point begin = Clock::now();
  const auto operation = collective("broadcast");
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // MPI counts are int
  const std::size_t bytes = bytes_of(count, type);
  for (std::size_t at = 0; at < std::max<std::size_t>(bytes, 1); at += kPiece) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int length = static_cast<int>(std::min(kPiece, bytes - at));
    check_mpi(MPI_Ibcast(static_cast<char*>(data) + at, length, MPI_BYTE, root, group_->comm, &request),
              "MPI_Ibcast", *group_);
    operation->add(request);
  }
  operation->set_started(1, rank() == root ? bytes : 0, begin);
  operation->wait();
}

void MpiCommunicator::all_gather(const void* from, void* to, std::span<const Index> counts, DType type) {
  check_counts("all_gather", counts);
  const std::vector<Index> offsets = offsets_of(counts);
  const auto at = [&](int r) {
    return static_cast<char*>(to) + bytes_of(offsets[static_cast<std::size_t>(r)], type);
  };
  const auto bytes = [&](int r) { return bytes_of(counts[static_cast<std::size_t>(r)], type); };
  if (bytes(rank()) > 0 && at(rank()) != from) std::memcpy(at(rank()), from, bytes(rank()));
  if (size() == 1) return;
  const Clock::time_point begin = Clock::now();
  const auto operation = collective("all_gather");
  for (int i = 1; i < size(); ++i) {
    const int r = (rank() + size() - i) % size();
    operation->receive(at(r), bytes(r), r, operation->internal_tag(0));
  }
  for (int i = 1; i < size(); ++i) {
    operation->send(at(rank()), bytes(rank()), (rank() + i) % size(), operation->internal_tag(0));
  }
  operation->set_started(1, bytes(rank()), begin);
  operation->wait();
}

void MpiCommunicator::reduce_scatter(const void* from, void* to, std::span<const Index> counts, DType type,
                                     ReduceOp op) {
  check_counts("reduce_scatter", counts);
  const std::vector<Index> offsets = offsets_of(counts);
  const auto at = [&](int r) {
    return static_cast<const char*>(from) + bytes_of(offsets[static_cast<std::size_t>(r)], type);
  };
  const Index own_count = counts[static_cast<std::size_t>(rank())];
  const std::size_t own = bytes_of(own_count, type);
  const MemoryBlock staging(MemorySpace::host, own * static_cast<std::size_t>(size() - 1));
  std::vector<const void*> contributions;
  if (size() > 1) {
    const Clock::time_point begin = Clock::now();
    const auto operation = collective("reduce_scatter");
    char* next = static_cast<char*>(staging.data());
    for (int r = 0; r < size(); ++r) {
      contributions.push_back(r == rank() ? at(r) : next);
      if (r == rank()) continue;
      operation->receive(next, own, r, operation->internal_tag(0));
      next += own;
    }
    for (int i = 1; i < size(); ++i) {
      const int r = (rank() + i) % size();
      operation->send(at(r), bytes_of(counts[static_cast<std::size_t>(r)], type), r,
                      operation->internal_tag(0));
    }
    operation->set_started(1, bytes_of(offsets.back(), type), begin);
    operation->wait();
  } else {
    contributions.push_back(from);
  }
  reduce_blocks(contributions, to, own_count, type, op, size());
}

void MpiCommunicator::all_to_all(const void* from, std::span<const Index> send_counts, void* to,
                                 std::span<const Index> receive_counts, DType type) {
  check_counts("all_to_all", send_counts);
  check_counts("all_to_all", receive_counts);
  const std::vector<Index> send_offsets = offsets_of(send_counts);
  const std::vector<Index> receive_offsets = offsets_of(receive_counts);
  const auto source = [&](int r) {
    return static_cast<const char*>(from) + bytes_of(send_offsets[static_cast<std::size_t>(r)], type);
  };
  const auto target = [&](int r) {
    return static_cast<char*>(to) + bytes_of(receive_offsets[static_cast<std::size_t>(r)], type);
  };
  const auto send_bytes = [&](int r) { return bytes_of(send_counts[static_cast<std::size_t>(r)], type); };
  const auto receive_bytes = [&](int r) {
    return bytes_of(receive_counts[static_cast<std::size_t>(r)], type);
  };
  require(send_bytes(rank()) == receive_bytes(rank()), "all_to_all", "{} bytes sent to oneself, {} expected",
          send_bytes(rank()), receive_bytes(rank()));
  if (send_bytes(rank()) > 0) std::memcpy(target(rank()), source(rank()), send_bytes(rank()));
  if (size() == 1) return;
  const Clock::time_point begin = Clock::now();
  const auto operation = collective("all_to_all");
  for (int i = 1; i < size(); ++i) {
    const int r = (rank() + size() - i) % size();
    operation->receive(target(r), receive_bytes(r), r, operation->internal_tag(0));
  }
  for (int i = 1; i < size(); ++i) {
    const int r = (rank() + i) % size();
    operation->send(source(r), send_bytes(r), r, operation->internal_tag(0));
  }
  operation->set_started(1, bytes_of(send_offsets.back(), type) - send_bytes(rank()), begin);
  operation->wait();
}

void MpiCommunicator::barrier() {
  if (size() == 1) return;
  const Clock::time_point begin = Clock::now();
  const auto operation = collective("barrier");
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(group_->comm, &request), "MPI_Ibarrier", *group_);
  operation->add(request);
  operation->set_started(1, 0, begin);
  operation->wait();
}

}  // namespace

std::chrono::milliseconds default_timeout() {
  const char* text = std::getenv("TESSERA_TIMEOUT_SECONDS");
  if (!text) return std::chrono::minutes(10);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds > 0 && seconds < 1e9)) {
    fail(ExitCode::usage, "TESSERA_TIMEOUT_SECONDS", "found '{}', expected a positive number of seconds",
         text);
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * seconds));
}

CommPtr world_communicator() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int* highest_tag = nullptr;
  int known = 0;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &highest_tag, &known);
  if (!known || *highest_tag < 2 * kUserTags - 1) {
    fail(ExitCode::communication, "MPI", "the highest tag is {}, expected at least {}",
         known ? *highest_tag : 0, 2 * kUserTags - 1);
  }
  auto board = std::make_shared<SequenceBoard>(comm);
  return std::make_shared<MpiCommunicator>(
      std::make_shared<MpiGroup>(comm, "world", board, default_timeout()));
}

void close_world(Communicator& world) {
  static_cast<MpiCommunicator&>(world).board().close();
}

}  // namespace tessera
