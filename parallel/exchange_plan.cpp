#include "parallel/exchange_plan.hpp"

#include <exception>

#include "parallel/device_messages.hpp"
#include "parallel/strided_block.hpp"

namespace tessera {
namespace {

// A pair of ranks exchanges one message per direction and motion, and motions start in the same order on all
// ranks, so one tag for each direction is enough.
constexpr int kForwardTag = 1000001;
constexpr int kAdjointTag = 1000002;

/// The part of a segment whose sources lie in a box, in coordinates of the two buffers.
struct Clip {
  Index destination = 0;
  Index source = 0;
  Index count = 0;
  Index step = 1;
};

Index floor_div(Index a, Index b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
Index ceil_div(Index a, Index b) {
  return -floor_div(-a, b);
}

/// The k in [0, count) with from + k * step in `range`.
Range steps_inside(const AxisSegment& segment, Range range) {
  const auto [lo, count, from, step] = segment;
  if (range.empty()) return {0, 0};
  if (step == 0) return range.contains(from) ? Range{0, count} : Range{0, 0};
  const Index first = step > 0 ? range.lo : range.hi - 1;
  const Index last = step > 0 ? range.hi - 1 : range.lo;
  return intersect({ceil_div(first - from, step), floor_div(last - from, step) + 1}, {0, count});
}

std::vector<Clip> clip(const AxisMap& need, Range range) {
  std::vector<Clip> clips;
  for (const AxisSegment& s : need.segments) {
    const Range k = steps_inside(s, range);
    if (k.empty()) continue;
    clips.push_back({s.lo + k.lo - need.range.lo, s.from + k.lo * s.step - range.lo, k.size(), s.step});
  }
  return clips;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

Shape shape_of(const NeedMap& need) {
  Shape shape;
  for (const AxisMap& axis : need) shape.push_back(axis.range.size());
  return shape;
}

bool reads_nothing(const NeedMap& need) {
  return std::any_of(need.begin(), need.end(), [](const AxisMap& axis) { return axis.segments.empty(); });
}

/// True if everything that is read lies in `box`.
bool reads_only(const NeedMap& need, const Box& box) {
  for (int d = 0; d < need.size(); ++d) {
    for (const AxisSegment& s : need[d].segments) {
      if (steps_inside(s, box[d]).size() != s.count) return false;
    }
  }
  return true;
}

bool fills_destination(const NeedMap& need) {
  if (count(shape_of(need)) == 0) return true;
  return std::all_of(need.begin(), need.end(), [](const AxisMap& axis) {
    Index filled = 0;
    for (const AxisSegment& s : axis.segments) filled += s.count;
    return filled == axis.range.size();
  });
}

/// Throws unless the segments stay inside the destination range and the source axis.
void check_need(const NeedMap& need, const Shape& source) {
  require(need.size() == source.size(), "ExchangePlan", "a need of {} dimensions for a source of shape {}",
          need.size(), to_string(source));
  for (int d = 0; d < need.size(); ++d) {
    for (const AxisSegment& s : need[d].segments) {
      require(s.lo >= need[d].range.lo && s.lo + s.count <= need[d].range.hi, "ExchangePlan",
              "dimension {}: segment [{}, {}) outside the destination range [{}, {})", d, s.lo,
              s.lo + s.count, need[d].range.lo, need[d].range.hi);
      require(steps_inside(s, {0, source[d]}).size() == s.count, "ExchangePlan",
              "dimension {}: {} indices from {} in steps of {} leave the source axis [0, {})", d, s.count,
              s.from, s.step, source[d]);
    }
  }
}

/// The blocks that move from the source buffer of box `box` to the destination buffer of `need`, in an order
/// that sender and receiver compute alike: the cartesian product of the clips of the axes, the last axis
/// fastest.
std::vector<StridedBlock> moving_blocks(const NeedMap& need, const Box& box) {
  std::vector<std::vector<Clip>> clips;
  Index products = 1;
  for (int d = 0; d < need.size(); ++d) {
    clips.push_back(clip(need[d], box[d]));
    products *= static_cast<Index>(clips.back().size());
  }
  const Shape from_strides = row_major_strides(box.shape());
  const Shape to_strides = row_major_strides(shape_of(need));
  std::vector<StridedBlock> blocks;
  for (Index number = 0; number < products; ++number) {
    StridedBlock block;
    Index rest = number;
    Index choices = products;
    for (int d = 0; d < need.size(); ++d) {
      const std::vector<Clip>& axis = clips[static_cast<std::size_t>(d)];
      choices /= static_cast<Index>(axis.size());
      const Clip& c = axis[static_cast<std::size_t>(rest / choices)];
      rest %= choices;
      block.from += c.source * from_strides[d];
      block.to += c.destination * to_strides[d];
      block.push_back(c.count, c.step * from_strides[d], to_strides[d]);
    }
    blocks.push_back(block);
  }
  return blocks;
}

/// One message: between this rank's source (outgoing) or destination (incoming) buffer and a dense buffer.
struct Message {
  int peer = 0;
  Index offset = 0;  // in the staging buffer of all messages of its direction
  Index elements = 0;
  std::vector<StridedBlock> blocks;  // from the strided buffer to the dense one if outgoing, else the reverse
};

/// Replaces the destination side (outgoing) or source side (incoming) of the blocks by consecutive places of
/// a message.
Message make_message(int peer, Index offset, const std::vector<StridedBlock>& moving, bool outgoing) {
  Message message{peer, offset, 0, {}};
  for (StridedBlock block : moving) {
    Index(&strides)[kMaxDims] = outgoing ? block.to_stride : block.from_stride;
    Index dense = 1;
    for (int d = block.dims - 1; d >= 0; --d) {
      strides[d] = dense;
      dense *= block.count[d];
    }
    (outgoing ? block.to : block.from) = message.elements;
    message.elements += dense;
    message.blocks.push_back(simplify(block));
  }
  return message;
}

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
  Index incoming_elements = 0;

  void set_own(const Box& box, const NeedMap& need) {
    source_shape = box.shape();
    destination_shape = shape_of(need);
    covers = fills_destination(need);
    for (const StridedBlock& block : moving_blocks(need, box)) kept.push_back(simplify(block));
  }
  void add_outgoing(int peer, const std::vector<StridedBlock>& blocks) {
    if (blocks.empty()) return;
    outgoing.push_back(make_message(peer, outgoing_elements, blocks, true));
    outgoing_elements += outgoing.back().elements;
  }
  void add_incoming(int peer, const std::vector<StridedBlock>& blocks) {
    if (blocks.empty()) return;
    incoming.push_back(make_message(peer, incoming_elements, blocks, false));
    incoming_elements += incoming.back().elements;
  }
};

struct ExchangePlan::Motion::State {
  std::shared_ptr<const Impl> plan;
  bool is_adjoint = false;
  void* target = nullptr;
  DType type = DType::f32;
  MemoryBlock sent;
  MemoryBlock received;
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
  /// Messages of one dense block are received where they belong.
  bool lands_in_place(const Message& message) const {
    return !is_adjoint && message.blocks.size() == 1 && is_dense(message.blocks.front());
  }
  void start_receives();
  void start_send(const void* source, const Message& message);
  void finish();
};

void ExchangePlan::Motion::State::start_receives() {
  const Index elements = is_adjoint ? plan->outgoing_elements : plan->incoming_elements;
  received = MemoryBlock(MemorySpace::device, bytes_of(elements, type));
  const int tag = is_adjoint ? kAdjointTag : kForwardTag;
  for (const Message& m : messages_in()) {
    void* to =
        lands_in_place(m) ? at(target, m.blocks.front().to, type) : at(received.data(), m.offset, type);
    receives.push_back(device_receive(*plan->comm, to, m.elements, type, m.peer, tag));
  }
}

void ExchangePlan::Motion::State::start_send(const void* source, const Message& message) {
  char* dense = at(sent.data(), message.offset, type);
  for (const StridedBlock& block : message.blocks) {
    copy_block(is_adjoint ? reversed(block) : block, source, dense, size_of(type));
  }
  const int tag = is_adjoint ? kAdjointTag : kForwardTag;
  sends.push_back(device_send(*plan->comm, dense, message.elements, type, message.peer, tag));
}

void ExchangePlan::Motion::State::finish() {
  if (finished) return;
  finished = true;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    receives[i].wait();
    const Message& message = messages_in()[i];
    if (lands_in_place(message)) continue;
    const char* dense = at(received.data(), message.offset, type);
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

ExchangePlan::ExchangePlan(const Layout& source, const std::function<NeedMap(int rank)>& need) {
  auto impl = std::make_shared<Impl>();
  const Mesh& mesh = source.mesh();
  const int me = mesh.rank();
  const MeshCoords my_coords = mesh.coords();
  impl->comm = mesh.comm_ptr();
  const NeedMap my_need = need(me);
  check_need(my_need, source.shape());
  impl->set_own(source.local_box(), my_need);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Box box = source.box(rank);
    const NeedMap rank_need = rank == me ? my_need : need(rank);
    impl->local = impl->local && (reads_nothing(rank_need) || reads_only(rank_need, box));
    if (rank == me || !same_replica(source, my_coords, mesh.coords(rank))) continue;
    impl->add_outgoing(rank, moving_blocks(rank_need, source.local_box()));
    impl->add_incoming(rank, moving_blocks(my_need, box));
  }
  impl_ = impl;
}

ExchangePlan::ExchangePlan(const Shape& shape, const NeedMap& need) {
  check_need(need, shape);
  auto impl = std::make_shared<Impl>();
  impl->set_own(Box::whole(shape), need);
  impl_ = impl;
}

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

ExchangePlan::Motion ExchangePlan::start(const void* source, void* destination, DType type) const {
  Motion motion;
  motion.state_ = std::make_shared<Motion::State>();
  Motion::State& state = *motion.state_;
  state.plan = impl_;
  state.target = destination;
  state.type = type;
  state.start_receives();
  state.sent = MemoryBlock(MemorySpace::device, bytes_of(impl_->outgoing_elements, type));
  for (const Message& message : impl_->outgoing) state.start_send(source, message);
  for (const StridedBlock& block : impl_->kept) copy_block(block, source, destination, size_of(type));
  return motion;
}

ExchangePlan::Motion ExchangePlan::start_adjoint(const void* destination_cotangent, void* source_cotangent,
                                                 DType type) const {
  Motion motion;
  motion.state_ = std::make_shared<Motion::State>();
  Motion::State& state = *motion.state_;
  state.plan = impl_;
  state.is_adjoint = true;
  state.target = source_cotangent;
  state.type = type;
  state.start_receives();
  state.sent = MemoryBlock(MemorySpace::device, bytes_of(impl_->incoming_elements, type));
  for (const Message& message : impl_->incoming) state.start_send(destination_cotangent, message);
  for (const StridedBlock& block : impl_->kept) {
    add_block(reversed(block), destination_cotangent, source_cotangent, type);
  }
  return motion;
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
