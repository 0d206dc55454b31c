#include "parallel/exchange_plan.hpp"

#include <exception>

#include "parallel/device_messages.hpp"
#include "parallel/exchange_blocks.hpp"

namespace tessera {
namespace {

// A pair of ranks exchanges one message per direction and motion, and motions start in the same order on all
// ranks, so one tag for each direction is enough.
constexpr int kForwardTag = 1000001;
constexpr int kAdjointTag = 1000002;

/// True if both ranks have the same coordinates on the axes that do not shard: they hold parts of one
/// replica.
bool same_replica(const Layout& layout, const MeshCoords& a, const MeshCoords& b) {
  for (int axis = 0; axis < a.size(); ++axis) {
    if (!layout.placement(axis).is_shard() && a[axis] != b[axis]) return false;
  }
  return true;
}

char* at(void* data, Index element, DType type) {
  return static_cast<char*>(data) + element * static_cast<Index>(size_of(type));
}
const char* at(const void* data, Index element, DType type) {
  return static_cast<const char*>(data) + element * static_cast<Index>(size_of(type));
}

std::size_t bytes_of(Index count, DType type) {
  return static_cast<std::size_t>(count) * size_of(type);
}

}  // namespace

struct ExchangePlan::Impl {
  CommPtr comm;  // null for a local plan
  Shape source_shape;
  Shape destination_shape;
  bool local = true;
  bool covers = true;
  std::vector<StridedBlock> kept;  // source to destination on this rank
  std::vector<Message> outgoing;   // by peer
  std::vector<Message> incoming;   // by peer
  Index outgoing_elements = 0;

  void set_own(const Box& box, const Needs& needs) {
    source_shape = box.shape();
    Index elements = 0;
    for (const NeedMap& need : needs) {
      elements += count(shape_of(need));
      covers = covers && fills_destination(need);
    }
    destination_shape = needs.size() == 1 ? shape_of(needs.front()) : Shape{elements};
    for (const StridedBlock& block : moving_blocks(needs, box)) kept.push_back(simplify(block));
  }
  void add_outgoing(int peer, const std::vector<StridedBlock>& blocks) {
    if (blocks.empty()) return;
    outgoing.push_back(make_message(peer, blocks, true));
    outgoing_elements += outgoing.back().elements;
  }
  void add_incoming(int peer, const std::vector<StridedBlock>& blocks) {
    if (!blocks.empty()) incoming.push_back(make_message(peer, blocks, false));
  }
};

struct ExchangePlan::Motion::State {
  std::shared_ptr<const Impl> plan;
  bool is_adjoint = false;
  const void* source = nullptr;  // of this motion, which is the destination of the plan if it is the adjoint
  void* target = nullptr;
  DType type = DType::f32;
  MemoryBlock sent;      // the packed messages, one behind another
  MemoryBlock received;  // the messages that finish() unpacks
  std::vector<Request> sends;
  std::vector<Request> receives;
  bool finished = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (finished || std::uncaught_exceptions() > 0) return;
    try {
      finish();
    } catch (const std::exception&) {
      // A destructor cannot report; the next communication on this group fails and does.
    }
  }

  const std::vector<Message>& messages_in() const { return is_adjoint ? plan->outgoing : plan->incoming; }
  const std::vector<Message>& messages_out() const { return is_adjoint ? plan->incoming : plan->outgoing; }
  int tag() const { return is_adjoint ? kAdjointTag : kForwardTag; }
  /// What the adjoint receives is added to what is there.
  bool lands_in_place(const Message& message) const { return !is_adjoint && message.is_dense(); }
  /// Where a dense message lies in the strided buffer.
  static Index place(const Message& message, bool outgoing) {
    return outgoing ? message.blocks.front().from : message.blocks.front().to;
  }

  void start_receives();
  void start_sends();
  void keep_own();
  void finish();
};

void ExchangePlan::Motion::State::start_receives() {
  Index elements = 0;
  for (const Message& m : messages_in()) elements += lands_in_place(m) ? 0 : m.elements;
  received = MemoryBlock(MemorySpace::device, bytes_of(elements, type));
  Index next = 0;
  for (const Message& m : messages_in()) {
    void* to = lands_in_place(m) ? at(target, place(m, false), type) : at(received.data(), next, type);
    next += lands_in_place(m) ? 0 : m.elements;
    receives.push_back(device_receive(*plan->comm, to, m.elements, type, m.peer, tag()));
  }
}

void ExchangePlan::Motion::State::start_sends() {
  Index elements = 0;
  for (const Message& m : messages_out()) elements += m.is_dense() ? 0 : m.elements;
  sent = MemoryBlock(MemorySpace::device, bytes_of(elements, type));
  Index next = 0;
  for (const Message& m : messages_out()) {
    const void* from = m.is_dense() ? at(source, place(m, !is_adjoint), type) : at(sent.data(), next, type);
    if (!m.is_dense()) {
      for (const StridedBlock& block : m.blocks) {
        copy_block(is_adjoint ? reversed(block) : block, source, at(sent.data(), next, type), size_of(type));
      }
      next += m.elements;
    }
    sends.push_back(device_send(*plan->comm, from, m.elements, type, m.peer, tag()));
  }
}

/// What this rank needs of its own.
void ExchangePlan::Motion::State::keep_own() {
  for (const StridedBlock& block : plan->kept) {
    if (is_adjoint) {
      add_block(reversed(block), source, target, type);
    } else {
      copy_block(block, source, target, size_of(type));
    }
  }
}

void ExchangePlan::Motion::State::finish() {
  if (finished) return;
  finished = true;
  if (is_adjoint) keep_own();
  Index next = 0;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    receives[i].wait();
    const Message& message = messages_in()[i];
    if (lands_in_place(message)) continue;
    const char* dense = at(received.data(), next, type);
    next += message.elements;
    for (const StridedBlock& block : message.blocks) {
      if (is_adjoint) {
        add_block(reversed(block), dense, target, type);
      } else {
        copy_block(block, dense, target, size_of(type));
      }
    }
  }
  for (Request& send : sends) send.wait();
  sent = MemoryBlock();
  received = MemoryBlock();
}

ExchangePlan::ExchangePlan(const Layout& source, const std::function<Needs(int rank)>& needs) {
  auto impl = std::make_shared<Impl>();
  const Mesh& mesh = source.mesh();
  const int me = mesh.rank();
  const MeshCoords my_coords = mesh.coords();
  impl->comm = mesh.comm_ptr();
  const Needs my_needs = needs(me);
  for (const NeedMap& need : my_needs) check_need(need, source.shape());
  impl->set_own(source.local_box(), my_needs);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Box box = source.box(rank);
    const Needs rank_needs = rank == me ? my_needs : needs(rank);
    impl->local = impl->local && std::all_of(rank_needs.begin(), rank_needs.end(), [&](const NeedMap& need) {
                    return reads_nothing(need) || reads_only(need, box);
                  });
    if (rank == me || !same_replica(source, my_coords, mesh.coords(rank))) continue;
    impl->add_outgoing(rank, moving_blocks(rank_needs, source.local_box()));
    impl->add_incoming(rank, moving_blocks(my_needs, box));
  }
  impl_ = impl;
}

ExchangePlan::ExchangePlan(const Layout& source, const std::function<NeedMap(int rank)>& need)
    : ExchangePlan(source, std::function<Needs(int)>([&](int rank) { return Needs{need(rank)}; })) {}

ExchangePlan::ExchangePlan(const Shape& shape, const Needs& needs) {
  auto impl = std::make_shared<Impl>();
  for (const NeedMap& need : needs) check_need(need, shape);
  impl->set_own(Box::whole(shape), needs);
  impl_ = impl;
}

ExchangePlan::ExchangePlan(const Shape& shape, const NeedMap& need) : ExchangePlan(shape, Needs{need}) {}

const Shape& ExchangePlan::source_shape() const {
  return impl_->source_shape;
}
const Shape& ExchangePlan::destination_shape() const {
  return impl_->destination_shape;
}
bool ExchangePlan::is_local() const {
  return impl_->local;
}
bool ExchangePlan::covers_destination() const {
  return impl_->covers;
}
int ExchangePlan::messages() const {
  return static_cast<int>(impl_->outgoing.size());
}
Index ExchangePlan::elements_sent() const {
  return impl_->outgoing_elements;
}

ExchangePlan::Motion ExchangePlan::begin(const void* source, void* target, DType type,
                                         bool is_adjoint) const {
  Motion motion;
  motion.state_ = std::make_shared<Motion::State>();
  Motion::State& state = *motion.state_;
  state.plan = impl_;
  state.is_adjoint = is_adjoint;
  state.source = source;
  state.target = target;
  state.type = type;
  state.start_receives();
  state.start_sends();
  if (!is_adjoint) state.keep_own();
  return motion;
}

ExchangePlan::Motion ExchangePlan::start(const void* source, void* destination, DType type) const {
  return begin(source, destination, type, false);
}

ExchangePlan::Motion ExchangePlan::start_adjoint(const void* destination_cotangent, void* source_cotangent,
                                                 DType type) const {
  return begin(destination_cotangent, source_cotangent, type, true);
}

void ExchangePlan::Motion::poll() {
  if (!state_) return;
  for (std::vector<Request>* requests : {&state_->receives, &state_->sends}) {
    for (Request& request : *requests) request.test();
  }
}

void ExchangePlan::Motion::finish() {
  if (state_) state_->finish();
}

NeedMap need_of(const Layout& target, int rank) {
  NeedMap need;
  for (int d = 0; d < target.shape().size(); ++d) need.push_back(map_identity(target.range(rank, d)));
  return need;
}

}  // namespace tessera
