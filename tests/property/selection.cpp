// Operators that look elements up by index.
#include "solver/ops/shape/shape.hpp"
#include "tests/property/draw.hpp"

namespace tessera::property {
namespace {

Sample draw_index_select(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 8);
  const int dim = draw.signed_dim(x.size());
  const Index n = x[dim < 0 ? dim + x.size() : dim], picked = draw.in(draw.one_in(10) ? 0 : 1, 10);
  const bool bad = picked > 0 && draw.one_in(10);
  Sample s;
  s.text = fmt::format("dim {}", dim);
  s.operand("x", x, draw.values(count(x)));
  s.constant("index", {picked}, draw.integers(picked, -n, n - 1), DType::i64);
  s.operands[1].dims.clear();  // the same on all ranks
  if (bad) {
    s.operands[1].values[static_cast<std::size_t>(draw.in(0, picked - 1))] = static_cast<double>(n);
    s.refusal = "[index_select] index";
  }
  s.op = [=](Inputs in) { return index_select(in[0], dim, in[1]); };
  return s;
}

Sample draw_gather(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 7);
  const int dim = draw.signed_dim(x.size());
  const int own = dim < 0 ? dim + x.size() : dim;
  Shape index = x;
  for (Index& n : index) n = draw.one_in(2) ? n : draw.in(1, n);
  index[own] = draw.in(1, 9);
  Sample s;
  s.text = fmt::format("dim {}", dim);
  s.operand("x", x, draw.values(count(x)));
  s.constant("index", index, draw.integers(count(index), 0, x[own] - 1), DType::i64);
  if (draw.one_in(10)) {
    s.operands[1].values[static_cast<std::size_t>(draw.in(0, count(index) - 1))] =
        static_cast<double>(x[own]);
    s.refusal = "[gather] index";
  }
  s.op = [=](Inputs in) { return gather(in[0], dim, in[1]); };
  return s;
}

}  // namespace

void add_selection(Table& table) {
  table.push_back({"index_select", draw_index_select, 2});
  table.push_back({"gather", draw_gather, 3});
}

}  // namespace tessera::property
