#include "parallel/ring.hpp"

#include <algorithm>
#include <array>

#include "parallel/device_messages.hpp"

namespace tessera {
namespace {

constexpr int kRotationTag = 1000003;
constexpr int kAccumulatorTag = 1000004;

/// Two buffers, one with the present block and one for the next, and the messages that turn the ring by one
/// rank.
class Ring {
 public:
  Ring(CommPtr comm, std::vector<Index> elements, DType type, int tag)
      : comm_(std::move(comm)), elements_(std::move(elements)), type_(type), tag_(tag) {
    require(elements_.size() == static_cast<std::size_t>(comm_->size()), "ring",
            "{} blocks for the {} ranks of '{}'", elements_.size(), comm_->size(), comm_->name());
    const Index longest = *std::max_element(elements_.begin(), elements_.end());
    for (MemoryBlock& buffer : buffers_) {
      buffer = MemoryBlock(MemorySpace::device, static_cast<std::size_t>(longest) * size_of(type));
      if (comm_->size() == 1) break;
    }
  }

  void restart() { step_ = 0; }
  void* current() const { return buffer(step_); }
  int owner() const { return owner_at(step_); }
  std::size_t own_bytes() const {
    return static_cast<std::size_t>(elements_[static_cast<std::size_t>(comm_->rank())]) * size_of(type_);
  }
  int size() const { return comm_->size(); }
  int step() const { return step_; }
  /// Whose block is here at a step.
  int owner_at(int step) const {
    const int n = comm_->size();
    return ((comm_->rank() - step) % n + n) % n;
  }

  /// Starts sending the present block on and receiving the next one.
  void start_turn() {
    if (comm_->size() == 1) return;
    const int right = (comm_->rank() + 1) % comm_->size();
    const int left = (comm_->rank() + comm_->size() - 1) % comm_->size();
    void* next = buffer(step_ + 1);
    const Index arriving = elements_[static_cast<std::size_t>(owner_at(step_ + 1))];
    const Index leaving = elements_[static_cast<std::size_t>(owner())];
    if (arriving > 0) receive_ = device_receive(*comm_, next, arriving, type_, left, tag_);
    if (leaving > 0) send_ = device_send(*comm_, current(), leaving, type_, right, tag_);
  }

  void progress() {
    receive_.test();
    send_.test();
  }

  void finish_turn() {
    receive_.wait();
    send_.wait();
    ++step_;
  }

 private:
  void* buffer(int step) const {
    return buffers_[comm_->size() == 1 ? 0 : static_cast<std::size_t>(step % 2)].data();
  }

  CommPtr comm_;
  std::vector<Index> elements_;
  DType type_;
  int tag_;
  int step_ = 0;
  std::array<MemoryBlock, 2> buffers_;
  Request send_;
  Request receive_;
};

}  // namespace

struct RingRotation::Impl {
  Ring ring;
};

RingRotation::RingRotation(CommPtr comm, std::vector<Index> elements, DType type)
    : impl_(std::make_shared<Impl>(Impl{Ring(std::move(comm), std::move(elements), type, kRotationTag)})) {}

void RingRotation::start(const void* own_block) {
  Ring& ring = impl_->ring;
  ring.restart();
  copy_bytes(ring.current(), MemorySpace::device, own_block, MemorySpace::device, ring.own_bytes());
}

const void* RingRotation::current() const {
  return impl_->ring.current();
}

int RingRotation::owner() const {
  return impl_->ring.owner();
}

void RingRotation::prefetch() {
  if (impl_->ring.step() + 1 < impl_->ring.size()) impl_->ring.start_turn();
}

void RingRotation::progress() {
  impl_->ring.progress();
}

void RingRotation::advance() {
  impl_->ring.finish_turn();
}

struct RingAccumulator::Impl {
  Ring ring;
  int left = 0;  ///< accumulators sent on
};

RingAccumulator::RingAccumulator(CommPtr comm, std::vector<Index> elements, DType type)
    : impl_(std::make_shared<Impl>(
          Impl{Ring(std::move(comm), std::move(elements), type, kAccumulatorTag), 0})) {
  zero_bytes(impl_->ring.current(), MemorySpace::device, impl_->ring.own_bytes());
}

void* RingAccumulator::current() {
  return impl_->ring.current();
}

int RingAccumulator::owner() const {
  return impl_->ring.owner_at(impl_->left);
}

void RingAccumulator::leave() {
  impl_->ring.start_turn();
  ++impl_->left;
}

void RingAccumulator::progress() {
  impl_->ring.progress();
}

void RingAccumulator::arrive() {
  impl_->ring.finish_turn();
}

}  // namespace tessera
