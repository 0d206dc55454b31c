#include <algorithm>

#include "parallel/exchange_blocks.hpp"
#include "solver/nn/cost_layers.hpp"
#include "solver/ops/conv/conv_backend.hpp"
#include "solver/ops/window/window_parts.hpp"

namespace tessera::cost {
namespace {

using Grads = Tape::Grads;

/// (1, *grid, channels) of a rank.
Box box_of(const GridCuts& cuts, int rank, Index channels) {
  Box box = tessera::box_of(cuts, rank);
  box.insert(0, {0, 1});
  box.push_back({0, channels});
  return box;
}

/// What a rank's part of a convolution reads and sends; as SplitConv.
struct Reads {
  GridCuts outputs;
  Movement movement;
  WindowParts split;
  Index cells = 0;  ///< whose windows are multiplied: of the outputs, or of the inputs if they are transposed
  // Elements: copied inputs; of the further parts, outputs of all and of the largest, most weights of one.
  Index copied = 0, cut = 0, addends = 0, taps = 0;

  bool moves() const { return !movement.is_local || copied > 0; }
};

/// The ranks' parts, and what of their messages is packed.
class Splits {
 public:
  Splits(const Field& x, const GridCuts& outputs, const Window& window, Index out_channels)
      : cuts_(x.cuts), outputs_(outputs), window_(window), in_(x.channels), out_(out_channels) {
    shape_ = {1};
    for (const Partition& p : x.cuts) shape_.push_back(p.extent());
    shape_.push_back(in_);
  }

  WindowParts of(int rank) const {
    return window_parts(shape_, window_, box_of(cuts_, rank, in_), box_of(outputs_, rank, out_), in_ * out_);
  }

  /// As ExchangePlan, by index of the grid: a message of one dense run is not packed, but what the adjoint
  /// receives is.
  void count_packed(int me, Movement& m) const {
    m.packed = m.packed_adjoint = 0;
    const Needs mine = needs(me);
    for (int rank = 0; rank < ranks_of(cuts_); ++rank) {
      if (rank == me) continue;
      const auto out = make_message(rank, moving_blocks(needs(rank), box_of(cuts_, me, 1)), true);
      const auto in = make_message(rank, moving_blocks(mine, box_of(cuts_, rank, 1)), false);
      const Index packed_in = in.is_dense() ? 0 : in.elements;
      m.packed += packed_in + (out.is_dense() ? 0 : out.elements);
      m.packed_adjoint += packed_in + out.elements;
    }
  }

 private:
  Needs needs(int rank) const {
    const WindowParts split = of(rank);
    Needs needs;
    for (std::size_t i = split.first_copied(); i < split.parts.size(); ++i) {
      const Box& box = split.parts[i].inputs;
      if (box.is_empty()) continue;
      NeedMap need{map_identity({0, 1})};
      for (int a = 0; a < window_.size(); ++a)
        need.push_back(map_with_boundary(box[a + 1], shape_[a + 1], window_[a].boundary));
      need.push_back(map_identity({0, 1}));
      needs.push_back(need);
    }
    return needs;
  }

  const GridCuts &cuts_, &outputs_;
  const Window& window_;
  Index in_, out_;
  Shape shape_;
};

Reads reads_of(const Ledger& ledger, const Field& x, const Window& window, Index out_channels) {
  Reads r;
  int me = 0;
  for (int a = 0; a < window.size(); ++a) {
    const Partition& cuts = x.cuts[static_cast<std::size_t>(a)];
    r.outputs.push_back(window[a].output_cuts(cuts));
    me = me * cuts.parts() + ledger.part(a);
  }
  r.movement = movement(ledger, x.cuts, [&](int a, int part) {
    const auto i = static_cast<std::size_t>(a);
    const Index n = x.cuts[i].extent();
    return map_with_boundary(window[a].slab_of(r.outputs[i].range(part), n), n, window[a].boundary);
  });
  const Splits splits(x, r.outputs, window, out_channels);
  splits.count_packed(me, r.movement);
  r.split = splits.of(me);
  r.copied = r.split.copied();
  const WindowPart& all = r.split.parts[0];
  r.cells = window[0].transposed ? all.inputs.volume() / x.channels : all.outputs.volume() / out_channels;
  for (std::size_t i = 1; i < r.split.parts.size(); ++i) {
    const WindowPart& part = r.split.parts[i];
    r.cut += part.outputs.volume();
    r.addends = std::max(r.addends, part.outputs.volume());
    r.taps = std::max(r.taps, part.taps.volume() * x.channels * out_channels);
  }
  return r;
}

}  // namespace

Field convolution(Tape& tape, const Field& x, const Window& window, Index out_channels) {
  Ledger& ledger = tape.ledger();
  const bool transposed = window[0].transposed;
  const std::string op = transposed ? "conv_transpose" : "conv";
  const Reads reads = reads_of(ledger, x, window, out_channels);
  Index taps = 1;
  for (const WindowAxis& axis : window) taps *= axis.kernel;
  const Index weights = x.channels * out_channels * taps, read = reads.split.parts[0].inputs.volume();
  const double operations = 2.0 * static_cast<double>(reads.cells) * static_cast<double>(weights);
  const Index reordered = operations > 0 && read > 0 ? weights : 0;  // in the order that the library wants

  Field y{reads.outputs, out_channels};
  const Index outputs = cells_of(ledger, y.cuts) * out_channels;
  y.storage = ledger.elements(outputs);
  const Storage halo = ledger.halo(reads.copied), kernel = ledger.rounded_parameter(weights);
  // The library's own copies for the first part: operands widened, weights reordered.
  const auto library = [=, &ledger](bool weights_pass = false) {
    const Storage x_wide = ledger.widened_operand(read), y_wide = ledger.widened_operand(outputs);
    const Storage w_wide = ledger.widened_operand(weights_pass ? 0 : reordered);
    if (ledger.widens_operands())
      ledger.wide(reordered);
    else
      ledger.elements(reordered);
    ledger.multiply(operations);
  };
  const auto messages = [=, &ledger, channels = x.channels](bool back) {
    return reads.moves() ? send(ledger, op, reads.movement, channels, back) : nullptr;
  };
  {
    const Storage under_way = messages(false);
    if (reads.split.own_first) library();
  }
  if (!reads.split.own_first) library();
  ledger.elements(reads.addends + 2 * reads.taps);
  const auto backward = [=, &ledger, want_x = x.node >= 0,
                         inputs = cells_of(ledger, x.cuts) * x.channels](const Storage&) {
    const Storage rounded = want_x ? ledger.rounded_parameter(weights) : nullptr;
    const Storage cotangents = ledger.elements(reads.cut);
    Storage gx, halo_gradient, under_way;
    if (want_x) {
      gx = ledger.elements(inputs);
      halo_gradient = ledger.elements(reads.copied);
      ledger.elements(2 * reads.taps);
      if (!reads.split.own_first) library();
      under_way = messages(true);
      if (reads.split.own_first) library();
    }
    const Storage gb = ledger.written_parameter_gradient(out_channels),
                  gw = ledger.written_parameter_gradient(weights);
    library(true);
    ledger.wide(2 * reads.taps);
    // Else the library gives the bias its gradient.
    const bool sums_rows = transposed || reordered == 0 || ledger.widens_operands();
    if (sums_rows) ledger.bytes(kRowAddends * out_channels * static_cast<Index>(sizeof(double)));
    return Grads{gx};
  };
  y.node = tape.record({x.node}, {reads.split.own_first ? x.storage : nullptr, halo}, backward);
  return y;
}

}  // namespace tessera::cost
