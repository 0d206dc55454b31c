#include "solver/nn/cost_layers.hpp"

#include <algorithm>
#include <bit>

#include "solver/ops/conv/conv_backend.hpp"
#include "solver/ops/norm/column_kernels.hpp"

namespace tessera::cost {
namespace {

using Grads = Tape::Grads;

constexpr Index kDouble = sizeof(double);
constexpr Index kMoment = sizeof(norm::Moment);

Index elements_of(const Ledger& ledger, const Field& x) {
  return cells_of(ledger, x.cuts) * x.channels;
}

/// The slabs that the parts of the outputs read, and the rank's local problem; as WindowedInput.
struct Slab {
  GridCuts outputs;
  Movement movement;
  Index cells = 0;
  bool shares_input = false;
};

Range slab_range(const WindowAxis& axis, Range outputs, Index n) {
  const Range needed = axis.inputs_of(outputs, n);
  if (axis.transposed || axis.boundary != Boundary::zero) return needed;
  return {std::clamp<Index>(needed.lo, 0, n), std::clamp<Index>(needed.hi, 0, n)};
}

bool own_range_serves(const WindowAxis& axis, Range have, Range want, Range outputs) {
  if (have == want) return true;
  if (want.empty() || want.lo < have.lo || want.hi > have.hi) return false;
  return axis.transposed ? axis.local_pad_lo(outputs, have) >= 0
                         : have.lo == want.lo && have.hi - want.hi < axis.stride;
}

Slab slab_of(const Ledger& ledger, const GridCuts& cuts, const Window& window) {
  Slab slab;
  for (int a = 0; a < window.size(); ++a)
    slab.outputs.push_back(window[a].output_cuts(cuts[static_cast<std::size_t>(a)]));
  const auto range = [&](int a, int part) {
    const auto i = static_cast<std::size_t>(a);
    return slab_range(window[a], slab.outputs[i].range(part), cuts[i].extent());
  };
  slab.movement = movement(ledger, cuts, [&](int a, int part) {
    return map_with_boundary(range(a, part), cuts[static_cast<std::size_t>(a)].extent(), window[a].boundary);
  });
  bool serves = true;
  slab.cells = 1;
  for (int a = 0; a < window.size(); ++a) {
    const auto i = static_cast<std::size_t>(a);
    const int part = ledger.part(a);
    slab.cells *= range(a, part).size();
    serves = serves &&
             own_range_serves(window[a], cuts[i].range(part), range(a, part), slab.outputs[i].range(part));
  }
  slab.shares_input = serves && slab.movement.is_local;
  if (slab.shares_input) slab.cells = cells_of(ledger, cuts);
  return slab;
}

}  // namespace

Field cast(Tape& tape, const Field& x, DType type) {
  Ledger& ledger = tape.ledger();
  if (type == ledger.type()) return x;
  const Index elements = elements_of(ledger, x);
  const DType from = ledger.type();
  ledger.set_type(type);
  Field y{x.cuts, x.channels, ledger.elements(elements)};
  if (x.node < 0) return y;
  y.node = tape.record({x.node}, {}, [=, &ledger](const Storage&) {
    ledger.set_type(from);
    return Grads{ledger.elements(elements)};
  });
  return y;
}

Field convolution(Tape& tape, const Field& x, const Window& window, Index out_channels) {
  Ledger& ledger = tape.ledger();
  const bool transposed = window[0].transposed;
  const std::string op = transposed ? "conv_transpose" : "conv";
  const Slab slab = slab_of(ledger, x.cuts, window);
  Index taps = 1;
  for (const WindowAxis& axis : window) taps *= axis.kernel;
  const Index weights = x.channels * out_channels * taps, slab_elements = slab.cells * x.channels;
  const Index windows = transposed ? slab.cells : cells_of(ledger, slab.outputs);
  const double operations = 2.0 * static_cast<double>(windows) * static_cast<double>(weights);
  // Weights in the order that the library wants.
  const Index reordered = operations > 0 && slab_elements > 0 ? weights : 0;

  Storage kept = x.storage;
  if (!slab.shares_input) {
    kept = ledger.halo(slab_elements);
    send(ledger, op, slab.movement, x.channels);
  }
  Field y{slab.outputs, out_channels};
  const Index outputs = elements_of(ledger, y);
  y.storage = ledger.elements(outputs);
  const Storage kernel = ledger.rounded_parameter(weights);
  ledger.multiply(operations);
  // The library's own copies: operands widened, weights reordered.
  const auto library = [=, &ledger](bool weights_pass = false) {
    const Storage x_wide = ledger.widened_operand(slab_elements), y_wide = ledger.widened_operand(outputs);
    const Storage w_wide = ledger.widened_operand(weights_pass ? 0 : reordered);
    if (ledger.widens_operands())
      ledger.wide(reordered);
    else
      ledger.elements(reordered);
  };
  library();
  const auto backward = [=, &ledger, want_x = x.node >= 0, channels = x.channels,
                         inputs = elements_of(ledger, x)](const Storage&) {
    Storage gx;
    if (want_x) {
      const Storage slab_gradient = ledger.elements(slab_elements);
      library();
      ledger.multiply(operations);
      gx = slab_gradient;
      if (!slab.shares_input) {
        gx = ledger.elements(inputs);
        send(ledger, op, slab.movement, channels, true);
      }
    }
    const Storage gb = ledger.written_parameter_gradient(out_channels),
                  gw = ledger.written_parameter_gradient(weights);
    library(true);
    // Else the library gives the bias its gradient.
    const bool sums_rows = transposed || reordered == 0 || ledger.widens_operands();
    if (sums_rows) ledger.bytes(kRowAddends * out_channels * kDouble);
    ledger.multiply(operations);
    return Grads{gx};
  };
  y.node = tape.record({x.node}, {kept, kernel}, backward);
  return y;
}

Field linear(Tape& tape, const Field& x, Index out_channels) {
  Ledger& ledger = tape.ledger();
  const Index rows = cells_of(ledger, x.cuts), weights = x.channels * out_channels;
  const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(weights);
  Field y{x.cuts, out_channels};
  y.storage = ledger.elements(rows * out_channels);
  const Storage kernel = ledger.rounded_parameter(weights), bias = ledger.rounded_parameter(out_channels);
  ledger.multiply(operations);
  const auto widened = [&ledger](Index a, Index b, Index c) {
    const Storage a_wide = ledger.widened_operand(a), b_wide = ledger.widened_operand(b);
    ledger.widened_operand(c);
  };
  const Index inputs = rows * x.channels, outputs = rows * out_channels;
  widened(inputs, weights, outputs);
  y.node = tape.record({x.node}, {x.storage, kernel}, [=, &ledger](const Storage&) {
    const Storage gx = ledger.elements(inputs);
    widened(outputs, weights, inputs);
    widened(outputs, inputs, 0);
    const Storage gw = ledger.written_parameter_gradient(weights),
                  gb = ledger.written_parameter_gradient(out_channels);
    ledger.multiply(2 * operations);
    return Grads{gx};
  });
  return y;
}

Field layer_norm(Tape& tape, const Field& x) {
  Ledger& ledger = tape.ledger();
  const Index rows = cells_of(ledger, x.cuts);
  Field y{x.cuts, x.channels};
  y.storage = ledger.elements(rows * x.channels);
  const Storage stats = ledger.wide(3 * rows);  // mean, rstd, 1 / count
  y.node = tape.record({x.node}, {x.storage, stats}, [rows, n = x.channels, &ledger](const Storage&) {
    const Storage gx = ledger.elements(rows * n);
    const Storage gw = ledger.parameter_gradient(n), gb = ledger.parameter_gradient(n);
    constexpr Index block = 64;  // rows whose addends are summed at once
    ledger.wide(2 * n * ((rows + block - 1) / block));
    return Grads{gx};
  });
  return y;
}

namespace {

/// Every rank's `bytes` of statistics on every rank, as gather_messages().
void gather(Ledger& ledger, Index bytes) {
  if (ledger.ranks() == 1) return;
  const auto rounds = static_cast<Index>(std::bit_width(static_cast<unsigned>(ledger.ranks() - 1)));
  ledger.communicate("group_norm_gelu", "send", rounds, (ledger.ranks() - 1) * bytes);
  ledger.bytes(ledger.ranks() * bytes);
}

}  // namespace

Field group_norm_gelu(Tape& tape, const Field& x, Index groups, const Field* residual) {
  Ledger& ledger = tape.ledger();
  norm::Columns columns;
  columns.rows = cells_of(ledger, x.cuts);
  const Index elements = columns.rows * x.channels, blocks = columns.blocks() * x.channels;
  const Storage moments = ledger.bytes(groups * kMoment);
  ledger.wide(3 * blocks);
  gather(ledger, groups * kMoment);
  Field y{x.cuts, x.channels};
  y.storage = ledger.elements(elements);
  const Storage stats = ledger.wide(2 * x.channels);
  const auto backward = [=, &ledger, n = x.channels](const Storage&) {
    const Storage before_gelu = ledger.elements(elements);
    const Storage sums = ledger.bytes(2 * n * kDouble);
    ledger.wide(2 * blocks);
    const Storage gw = ledger.parameter_gradient(n), gb = ledger.parameter_gradient(n);
    const Storage totals = ledger.bytes(2 * groups * kDouble);
    gather(ledger, 2 * groups * kDouble);
    const Storage gx = ledger.elements(elements);
    ledger.wide(3 * n);
    return Grads{gx, before_gelu};
  };
  y.node = tape.record({x.node, residual ? residual->node : -1},
                       {x.storage, residual ? residual->storage : nullptr, stats, moments}, backward);
  return y;
}

Field unary(Tape& tape, const Field& x) {
  Ledger& ledger = tape.ledger();
  const Index elements = elements_of(ledger, x);
  Field y{x.cuts, x.channels, ledger.elements(elements)};
  y.node = tape.record({x.node}, {x.storage},
                       [=, &ledger](const Storage&) { return Grads{ledger.elements(elements)}; });
  return y;
}

Field add(Tape& tape, const Field& a, const Field& b) {
  Ledger& ledger = tape.ledger();
  Field y{a.cuts, a.channels, ledger.elements(elements_of(ledger, a))};
  y.node = tape.record({a.node, b.node}, {}, [](const Storage& grad) { return Grads{grad, grad}; });
  return y;
}

Field add_parameter(Tape& tape, const Field& x) {
  Ledger& ledger = tape.ledger();
  const Index whole = count(extents_of(x.cuts)) * x.channels, own = elements_of(ledger, x);
  // The parameter is cut like x; a rank's part of its gradient is embedded in zeros, for the reducer.
  // On one rank all three are the same memory.
  const Storage rounded = ledger.rounded_parameter(whole);
  Field part{x.cuts, x.channels, ledger.ranks() > 1 ? ledger.elements(own) : nullptr};
  part.node = tape.record({-1}, {}, [=, &ledger](const Storage&) {
    const Storage embedded = ledger.ranks() > 1 ? ledger.elements(whole) : nullptr;
    ledger.widened(whole);
    return Grads{nullptr};
  });
  return add(tape, x, part);
}

void mean_of_all(Tape& tape, const Field& x) {
  Ledger& ledger = tape.ledger();
  if (ledger.ranks() > 1) ledger.communicate("mse_loss", "all_reduce", 1, ledger.element_size());
  const Index elements = elements_of(ledger, x);
  const Storage result = ledger.elements(1);
  tape.record({x.node}, {x.storage, result},
              [=, &ledger](const Storage&) { return Grads{ledger.elements(elements)}; });
}

Field weighted_terms(Tape& tape, const GridCuts& cuts, Index channels, Index terms) {
  Ledger& ledger = tape.ledger();
  const Index elements = cells_of(ledger, cuts) * channels, all = terms * elements;
  const auto gradient = [=, &ledger](const Storage&) { return Grads{ledger.elements(all)}; };
  Field products{cuts, channels * terms, ledger.elements(all)};
  products.node = tape.record({-1}, {}, gradient);  // keeps the parameter itself
  Field y{cuts, channels, ledger.elements(elements)};
  y.node = tape.record({products.node}, {products.storage}, gradient);
  return y;
}

std::vector<Field> unbind(Tape& tape, const Field& x, Index parts) {
  Ledger& ledger = tape.ledger();
  // The gradients of the parts wait for each other, then go into one.
  const auto waiting = std::make_shared<Grads>();
  const int joined =
      tape.record({x.node}, {}, [waiting, all = elements_of(ledger, x), &ledger](const Storage&) {
        const Storage gx = ledger.elements(all);
        waiting->clear();
        return Grads{gx};
      });
  std::vector<Field> fields;
  for (Index p = 0; p < parts; ++p) {
    const Index channels = x.channels / parts;
    Field part{x.cuts, channels, ledger.elements(cells_of(ledger, x.cuts) * channels)};
    part.node = tape.record({joined}, {}, [waiting, p](const Storage& grad) {
      waiting->push_back(grad);
      return Grads{p == 0 ? grad : nullptr};
    });
    fields.push_back(std::move(part));
  }
  return fields;
}

Field permute(Tape& tape, const Field& x, const GridCuts& cuts, Index channels) {
  Ledger& ledger = tape.ledger();
  const Index elements = elements_of(ledger, x);
  Field y{cuts, channels, ledger.elements(elements)};
  y.node =
      tape.record({x.node}, {}, [=, &ledger](const Storage&) { return Grads{ledger.elements(elements)}; });
  return y;
}

Field pad_high(Tape& tape, const Field& x, int axis, Index more, Boundary boundary) {
  Ledger& ledger = tape.ledger();
  Field y{x.cuts, x.channels};
  const auto at = static_cast<std::size_t>(axis);
  const Index old = x.cuts[at].extent();
  std::vector<Index> moved(x.cuts[at].cuts().begin(), x.cuts[at].cuts().end());
  for (std::size_t p = moved.size(); p-- > 1 && moved[p] == old;) moved[p] = old + more;
  y.cuts[at] = Partition(std::move(moved));
  const Movement m = movement(ledger, x.cuts, [&](int a, int part) {
    const auto i = static_cast<std::size_t>(a);
    return map_with_boundary(y.cuts[i].range(part), x.cuts[i].extent(),
                             a == axis ? boundary : Boundary::zero);
  });
  y.storage = ledger.elements(elements_of(ledger, y));
  send(ledger, "pad", m, x.channels);
  const auto backward = [=, &ledger, channels = x.channels, inputs = elements_of(ledger, x)](const Storage&) {
    const Storage gx = ledger.elements(inputs);
    send(ledger, "pad", m, channels, true);
    return Grads{gx};
  };
  if (x.node >= 0) y.node = tape.record({x.node}, {}, backward);
  return y;
}

namespace {

/// The same values under other cut points, there and back.
Field moved(Tape& tape, const std::string& op, const Field& x, const GridCuts& cuts, const Movement& there,
            const Movement& back) {
  Ledger& ledger = tape.ledger();
  Field y{cuts, x.channels};
  y.storage = ledger.elements(elements_of(ledger, y));
  send(ledger, op, there, x.channels);
  const auto backward = [=, &ledger, channels = x.channels, inputs = elements_of(ledger, x)](const Storage&) {
    const Storage gx = ledger.elements(inputs);
    send(ledger, op, back, channels);
    return Grads{gx};
  };
  y.node = tape.record({x.node}, {}, backward);
  return y;
}

}  // namespace

Field crop_high(Tape& tape, const Field& x, const Shape& extents) {
  const Ledger& ledger = tape.ledger();
  GridCuts cuts;
  for (std::size_t a = 0; a < x.cuts.size(); ++a) {
    std::vector<Index> cropped;
    for (const Index c : x.cuts[a].cuts()) cropped.push_back(std::min(c, extents[static_cast<int>(a)]));
    cuts.push_back(Partition(std::move(cropped)));
  }
  const Movement back = movement(ledger, cuts, [&](int a, int part) {
    const auto i = static_cast<std::size_t>(a);
    return map_with_boundary(x.cuts[i].range(part), cuts[i].extent(), Boundary::zero);
  });
  return moved(tape, "crop", x, cuts, movement(ledger, x.cuts, cuts), back);
}

Field redistribute(Tape& tape, const Field& x, const GridCuts& cuts) {
  if (x.cuts == cuts) return x;
  const Ledger& ledger = tape.ledger();
  return moved(tape, "redistribute", x, cuts, movement(ledger, x.cuts, cuts), movement(ledger, cuts, x.cuts));
}

Field checkpoint(Tape& tape, const Field& x, const std::function<Field(Tape&, const Field&)>& body) {
  Ledger& ledger = tape.ledger();
  Tape silent(ledger, false);
  Field y = body(silent, x);
  y.node = tape.record({x.node}, {x.storage}, [x, body, &ledger](const Storage& grad) {
    Tape again(ledger);
    Field fresh = x;
    fresh.node = again.leaf();
    const Field output = [&] {
      const Ledger::Direction forward(ledger, false);
      return body(again, fresh);
    }();
    const Ledger::Hold hold(ledger);  // parameters get their gradients when the block is done
    return again.backward(grad);
  });
  return y;
}

}  // namespace tessera::cost
