#include "solver/nn/cost_layers.hpp"

#include <algorithm>
#include <bit>

#include "solver/ops/norm/column_kernels.hpp"

namespace tessera::cost {
namespace {

using Grads = Tape::Grads;

constexpr Index kDouble = sizeof(double);
constexpr Index kMoment = sizeof(norm::Moment);

Index elements_of(const Ledger& ledger, const Field& x) {
  return cells_of(ledger, x.cuts) * x.channels;
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
  y.node = tape.record({x.node}, {x.storage}, [=, &ledger](const Storage&) {
    const Storage gx = ledger.elements(inputs);
    {
      const Storage rounded = ledger.rounded_parameter(weights);
      widened(outputs, weights, inputs);
    }
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
