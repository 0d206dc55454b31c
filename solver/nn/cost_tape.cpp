#include "solver/nn/cost_tape.hpp"

#include <algorithm>

#include "solver/ops/onednn/onednn.hpp"

namespace tessera::cost {

Storage Ledger::bytes(Index count) {
  if (count <= 0) return nullptr;
  current_ += count;
  total_.peak_bytes = std::max(total_.peak_bytes, current_);
  return {new Index(count), [this](const Index* held) {
            current_ -= *held;
            delete held;
          }};
}

Storage Ledger::halo(Index elements) {
  const Storage memory = this->elements(elements);
  if (!memory) return nullptr;
  halo_ += *memory;
  return {memory.get(), [this, memory](const Index*) { halo_ -= *memory; }};
}

Storage Ledger::parameter_gradient(Index elements) {
  const Storage memory = wide(elements);
  if (held_) held_->push_back(memory);
  return memory;
}

bool Ledger::widens_operands() const {
  return is_mixed() && !onednn::multiplies_bf16_faster();
}

void Ledger::multiply(double operations) {
  (backward_ ? total_.backward_operations : total_.forward_operations) += operations;
}

void Ledger::communicate(const std::string& op, const std::string& operation, Index calls, Index bytes) {
  if (calls == 0) return;
  const std::string booked_on = going_back_ ? op + " backward" : op;
  Traffic& traffic = (backward_ ? total_.backward : total_.forward)[{booked_on, operation}];
  traffic.calls += calls;
  traffic.bytes += bytes;
}

void Ledger::start_backward() {
  backward_ = true;
  total_.kept_bytes = current_;
  total_.halo_bytes = halo_;
}

Index cells_of(const Ledger& ledger, const GridCuts& cuts) {
  Index n = 1;
  for (std::size_t a = 0; a < cuts.size(); ++a) n *= cuts[a].range(ledger.part(static_cast<int>(a))).size();
  return n;
}

Shape extents_of(const GridCuts& cuts) {
  Shape shape;
  for (const Partition& p : cuts) shape.push_back(p.extent());
  return shape;
}

int Tape::leaf() {
  nodes_.push_back({{}, {}, nullptr, ledger_.type()});
  return static_cast<int>(nodes_.size()) - 1;
}

int Tape::record(std::vector<int> inputs, std::vector<Storage> kept, Backward backward) {
  if (!recording_) return -1;
  nodes_.push_back({std::move(inputs), std::move(kept), std::move(backward), ledger_.type()});
  return static_cast<int>(nodes_.size()) - 1;
}

/// A second gradient is added up in new memory, further ones in place.
void Tape::deliver(int node, const Storage& grad) {
  if (node < 0) return;
  Node& to = nodes_[static_cast<std::size_t>(node)];
  if (to.inbox && !to.owned) {
    to.inbox = ledger_.bytes(*to.inbox);
    to.owned = true;
  } else if (!to.inbox) {
    to.inbox = grad;
  }
}

Tape::Grads Tape::backward(Storage grad) {
  nodes_.back().inbox = std::move(grad);
  Grads leaves;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const Storage own = std::move(node->inbox);
    if (!node->backward) {
      leaves.insert(leaves.begin(), own);
      continue;
    }
    const Ledger::Direction back(ledger_, true);
    ledger_.set_type(node->type);
    const Grads grads = node->backward(own);
    node->kept.clear();
    for (std::size_t i = 0; i < node->inputs.size(); ++i) deliver(node->inputs[i], grads[i]);
  }
  return leaves;
}

namespace {

/// How many destination indices of the map come from `range`.
Index taken(const AxisMap& map, Range range) {
  Index n = 0;
  for (const AxisSegment& s : map.segments) {
    if (s.step == 0) {
      n += range.contains(s.from) ? s.count : 0;
    } else {  // steps of 1 and -1
      const Index last = s.from + s.step * (s.count - 1);
      n += intersect(range, {std::min(s.from, last), std::max(s.from, last) + 1}).size();
    }
  }
  return n;
}

Index needed(const AxisMap& map) {
  Index n = 0;
  for (const AxisSegment& s : map.segments) n += s.count;
  return n;
}

/// Messages and indices between this rank and all others, from those between parts of each axis.
struct Product {
  Index messages = 1, indices = 1, own = 1;

  void axis(const std::vector<Index>& by_part, int own_part) {
    Index sum = 0, present = 0;
    for (const Index n : by_part) sum += n, present += n > 0 ? 1 : 0;
    messages *= present;
    indices *= sum;
    own *= by_part[static_cast<std::size_t>(own_part)];
  }
  Index other_messages() const { return messages - (own > 0 ? 1 : 0); }
  Index other_indices() const { return indices - own; }
};

}  // namespace

Movement movement(const Ledger& ledger, const GridCuts& source,
                  const std::function<AxisMap(int axis, int part)>& need) {
  Product out, in;
  std::vector<bool> leaves_box;  // of each axis: some part needs indices of another one
  bool all_read = true;          // on every axis some part reads something
  for (std::size_t a = 0; a < source.size(); ++a) {
    const int axis = static_cast<int>(a), own = ledger.part(axis);
    std::vector<Index> to, from;
    bool leaves = false, reads = false;
    for (int p = 0; p < source[a].parts(); ++p) {
      const AxisMap theirs = need(axis, p);
      to.push_back(taken(theirs, source[a].range(own)));
      from.push_back(taken(need(axis, own), source[a].range(p)));
      reads = reads || needed(theirs) > 0;
      leaves = leaves || taken(theirs, source[a].range(p)) < needed(theirs);
    }
    out.axis(to, own);
    in.axis(from, own);
    leaves_box.push_back(leaves);
    all_read = all_read && reads;
  }
  const bool moves = all_read && std::find(leaves_box.begin(), leaves_box.end(), true) != leaves_box.end();
  return {out.other_messages(), out.other_indices(), in.other_messages(), in.other_indices(), !moves};
}

Movement movement(const Ledger& ledger, const GridCuts& source, const GridCuts& target) {
  return movement(ledger, source, [&](int axis, int part) {
    return map_identity(target[static_cast<std::size_t>(axis)].range(part));
  });
}

namespace {

Storage send_bytes(Ledger& ledger, const std::string& op, const Movement& m, Index bytes, bool reversed) {
  const Index messages = reversed ? m.messages_in : m.messages_out;
  ledger.communicate(op, "send", messages, (reversed ? m.indices_in : m.indices_out) * bytes);
  const Index packed = reversed ? m.packed_adjoint : m.packed;
  return ledger.bytes((packed < 0 ? m.indices_in + m.indices_out : packed) * bytes);
}

}  // namespace

Storage send(Ledger& ledger, const std::string& op, const Movement& m, Index channels, bool reversed) {
  return send_bytes(ledger, op, m, channels * ledger.element_size(), reversed);
}

Storage send_sums(Ledger& ledger, const std::string& op, const Movement& m, Index channels) {
  return send_bytes(ledger, op, m, channels * ledger.wide_size(), true);
}

}  // namespace tessera::cost
