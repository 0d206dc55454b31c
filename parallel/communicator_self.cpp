// The communicator of one process: collectives are copies, messages to oneself wait in a queue.
#include <cstring>
#include <deque>
#include <map>

#include <mpi.h>

#include "parallel/communicator.hpp"

namespace tessera {
namespace {

std::size_t bytes_of(Index count, DType type) {
  return static_cast<std::size_t>(count) * size_of(type);
}

using Mailbox = std::map<int, std::deque<std::vector<char>>>;  // by tag

/// A receive that is complete once the message has been sent.
struct SelfReceive : Request::State {
  std::shared_ptr<Mailbox> mailbox;
  void* data = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
  bool done = false;

  bool test() override {
    std::deque<std::vector<char>>& queue = (*mailbox)[tag];
    if (done || queue.empty()) return done;
    if (queue.front().size() != bytes) {
      fail(ExitCode::communication, "receive", "message of {} bytes with tag {}, expected {}",
           queue.front().size(), tag, bytes);
    }
    if (bytes > 0) std::memcpy(data, queue.front().data(), bytes);
    queue.pop_front();
    return done = true;
  }
  void wait() override {
    if (!test()) fail(ExitCode::communication, "receive", "no message with tag {} was sent to oneself", tag);
  }
};

class SelfCommunicator : public Communicator {
 public:
  explicit SelfCommunicator(std::string name) : name_(std::move(name)) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view name() const override { return name_; }
  int world_rank(int) const override { return 0; }
  MemorySpace space() const override { return MemorySpace::host; }

  Request start_send(const void* data, Index count, DType type, int to, int tag) override {
    check(to);
    const char* begin = static_cast<const char*>(data);
    (*mailbox_)[tag].emplace_back(begin, begin + bytes_of(count, type));
    return Request();
  }
  Request start_receive(void* data, Index count, DType type, int from, int tag) override {
    check(from);
    auto state = std::make_shared<SelfReceive>();
    state->mailbox = mailbox_;
    state->data = data;
    state->bytes = bytes_of(count, type);
    state->tag = tag;
    return Request(state);
  }
  Request start_all_reduce(void*, Index, DType, ReduceOp) override { return Request(); }

  void broadcast(void*, Index, DType, int root) override { check(root); }
  void all_gather(const void* from, void* to, std::span<const Index> counts, DType type) override {
    copy(from, to, counts[0], type);
  }
  void reduce_scatter(const void* from, void* to, std::span<const Index> counts, DType type,
                      ReduceOp) override {
    copy(from, to, counts[0], type);
  }
  void all_to_all(const void* from, std::span<const Index> send_counts, void* to,
                  std::span<const Index> receive_counts, DType type) override {
    require(send_counts[0] == receive_counts[0], "all_to_all", "{} elements sent to oneself, {} expected",
            send_counts[0], receive_counts[0]);
    copy(from, to, send_counts[0], type);
  }
  void barrier() override {}

  CommPtr split(int, int, std::string name) override {
    return std::make_shared<SelfCommunicator>(std::move(name));
  }

  void* native_handle() override {
    int running = 0;
    MPI_Initialized(&running);
    if (!running)
      fail(ExitCode::communication, "communicator", "'{}' has no MPI handle: MPI is not running", name_);
    handle_ = MPI_COMM_SELF;
    return &handle_;
  }
  void set_timeout(std::chrono::milliseconds) override {}

 private:
  static void check(int rank) { require(rank == 0, "communicator", "rank {} of a group of one", rank); }
  static void copy(const void* from, void* to, Index count, DType type) {
    if (count > 0 && from != to) std::memmove(to, from, bytes_of(count, type));
  }

  std::string name_;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  MPI_Comm handle_ = MPI_COMM_NULL;
};

}  // namespace

CommPtr self_communicator() {
  return std::make_shared<SelfCommunicator>("self");
}

}  // namespace tessera
