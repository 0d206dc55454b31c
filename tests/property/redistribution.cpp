// What changes the layout of a tensor and not its values.
#include "solver/tensor/redistribute.hpp"

#include "solver/ops/elementwise/elementwise.hpp"
#include "tests/property/draw.hpp"
#include "tests/property/layouts.hpp"

namespace tessera::property {
namespace {

/// One operand of any layout; `op` is the identity.
Sample identity(Draw& draw, std::function<Outputs(const Tensor&)> op) {
  const Shape x = draw.shape(static_cast<int>(draw.in(0, 4)), 9, true);
  Sample s;
  s.spoilable = false;
  s.operand("x", x, draw.values(count(x)));
  s.op = [op = std::move(op)](Inputs in) { return op(in[0]); };
  return s;
}

/// Layout after layout, through operators that want the value in between or not.
Sample draw_redistribute(Draw& draw) {
  Sample s = identity(draw, nullptr);
  std::vector<Layout> chain;
  std::vector<bool> used;  // whether an operator reads the value on the way
  const Shape shape = s.operands[0].shape;
  for (Index i = draw.in(1, 4); i > 0; --i) {
    chain.push_back(draw_layout(draw, shape, testing::all_dims(shape), true));
    used.push_back(draw.one_in(4));
    s.text += (s.text.empty()          ? "to "
               : used[used.size() - 1] ? " times 2 to "
                                       : " to ") +
              to_string(chain.back());
  }
  s.op = [=, mesh = draw.mesh()](Inputs in) {
    Tensor y = in[0];
    for (std::size_t i = 0; i < chain.size(); ++i) {
      if (used[i]) y = mul(y, 2.0);
      if (in[0].is_shard()) y = redistribute(y, chain[i]);
    }
    return y;
  };
  return s;
}

/// Values that are not whole on any rank: a plain operand is promoted on the way.
Sample draw_promote(Draw& draw) {
  Sample s = identity(draw, [mesh = draw.mesh()](const Tensor& x) { return promote(x, mesh); });
  s.operands[0].dims.clear();
  s.operands[0].partial = false;
  return s;
}

Sample draw_from_local(Draw& draw) {
  Sample s =
      identity(draw, [](const Tensor& x) { return x.is_shard() ? from_local(to_local(x), x.layout()) : x; });
  return s;
}

Sample draw_to_local(Draw& draw) {
  // The local part of a whole tensor is that tensor.
  return identity(draw, [](const Tensor& x) {
    return x.is_shard() ? to_local(redistribute(x, Layout::replicated(x.layout().mesh(), x.shape()))) : x;
  });
}

Sample draw_scatter(Draw& draw) {
  Sample s = identity(draw, nullptr);
  const Shape shape = s.operands[0].shape;
  const Layout layout = draw_layout(draw, shape, testing::all_dims(shape), true);
  const auto source = static_cast<int>(draw.in(0, draw.mesh().size() - 1));
  s.spoilable = true;
  s.text = fmt::format("from rank {} to {}", source, to_string(layout));
  s.operands[0].dims.clear();
  s.operands[0].partial = false;
  s.operands[0].differentiable = false;
  s.op = [=](Inputs in) {
    const bool holds = layout.mesh().rank() == source;
    return scatter(holds ? full_tensor(in[0]) : Tensor(), layout, in[0].dtype(), source);
  };
  return s;
}

}  // namespace

void add_redistribution(Table& table) {
  table.push_back({"redistribute", draw_redistribute, 6});
  table.push_back({"reduce_partial", [](Draw& draw) { return identity(draw, reduce_partial); }, 2});
  table.push_back({"promote", draw_promote});
  table.push_back({"scatter", draw_scatter, 2});
  table.push_back({"from_local", draw_from_local, 2});
  table.push_back({"to_local", draw_to_local});
  table.push_back({"full_tensor", [](Draw& draw) { return identity(draw, full_tensor); }, 2});
}

}  // namespace tessera::property
