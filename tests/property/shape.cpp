// Operators that move elements without choosing among them.
#include "solver/ops/shape/shape.hpp"

#include <algorithm>
#include <numeric>

#include "tests/property/draw.hpp"

namespace tessera::property {
namespace {

std::string to_string(const std::vector<int>& dims) {
  std::string text;
  for (int d : dims) text += (text.empty() ? "" : ",") + std::to_string(d);
  return "(" + text + ")";
}

/// One operand, everywhere differentiable.
Sample of_x(Draw& draw, const Shape& x, std::string text, std::function<Outputs(const Tensor&)> op) {
  Sample s;
  s.text = std::move(text);
  s.operand("x", x, draw.values(count(x)));
  s.op = [op = std::move(op)](Inputs in) { return op(in[0]); };
  return s;
}

Sample draw_reshape(Draw& draw) {
  Shape x;
  for (Index d = draw.in(0, 5); d > 0; --d) x.push_back(draw.of<Index>({1, 2, 3, 4, 4, 5, 6, 8}));
  Shape shape = draw.regrouped(x);
  if (draw.one_in(32) && !x.empty() && !shape.empty()) {
    x[draw.dim(x.size())] = 0;
    shape[draw.dim(shape.size())] = 0;
  }
  return of_x(draw, x, tessera::to_string(shape), [=](const Tensor& t) { return reshape(t, shape); });
}

Sample draw_unsqueeze(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(0, 4)), 6, true);
  const int dim = draw.signed_dim(x.size() + 1);
  return of_x(draw, x, fmt::format("dim {}", dim), [=](const Tensor& t) { return unsqueeze(t, dim); });
}

Sample draw_squeeze(Draw& draw) {
  Shape x = draw.shape(static_cast<int>(draw.in(1, 5)), 6);
  const int dim = draw.signed_dim(x.size());
  const int own = dim < 0 ? dim + x.size() : dim;
  const bool legal = !draw.one_in(10) || x[own] == 1;
  if (legal) x[own] = 1;
  Sample s = of_x(draw, x, fmt::format("dim {}", dim), [=](const Tensor& t) { return squeeze(t, dim); });
  if (!legal) s.refusal = "[squeeze] found extent";
  return s;
}

Sample draw_permute(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 6)), 5, true);
  std::vector<int> dims = testing::all_dims(x);
  std::shuffle(dims.begin(), dims.end(), draw.random());
  return of_x(draw, x, to_string(dims), [=](const Tensor& t) { return permute(t, dims); });
}

Sample draw_slice(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 12, true);
  const int dim = draw.signed_dim(x.size());
  const Index n = x[dim < 0 ? dim + x.size() : dim];
  const Index start = draw.in(0, n), stop = draw.in(start, n), step = draw.in(1, 4);
  return of_x(draw, x, fmt::format("dim {} {}:{}:{}", dim, start, stop, step),
              [=](const Tensor& t) { return slice(t, dim, start, stop, step); });
}

Sample draw_select(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 5)), 8);
  const int dim = draw.signed_dim(x.size());
  const Index n = x[dim < 0 ? dim + x.size() : dim], index = draw.in(-n, n - 1);
  return of_x(draw, x, fmt::format("dim {} index {}", dim, index),
              [=](const Tensor& t) { return select(t, dim, index); });
}

Sample draw_split(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 9, true);
  const int dim = draw.signed_dim(x.size());
  const Index n = x[dim < 0 ? dim + x.size() : dim];
  const Partition cuts =
      testing::random_cuts(draw.random(), n, static_cast<int>(draw.in(1, 4)), testing::Cuts::uneven);
  std::vector<Index> sizes;
  for (int p = 0; p < cuts.parts(); ++p) sizes.push_back(cuts.range(p).size());
  return of_x(draw, x, fmt::format("dim {} at {}", dim, tessera::to_string(cuts)),
              [=](const Tensor& t) { return split(t, dim, sizes); });
}

Sample draw_unbind(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 6);
  const int dim = draw.signed_dim(x.size());
  return of_x(draw, x, fmt::format("dim {}", dim), [=](const Tensor& t) { return unbind(t, dim); });
}

Sample draw_cat(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 7);
  const int dim = draw.signed_dim(x.size());
  Sample s;
  s.text = fmt::format("dim {}", dim);
  for (Index i = draw.in(1, 4); i > 0; --i) {
    Shape own = x;
    own[dim < 0 ? dim + x.size() : dim] = draw.in(draw.one_in(8) ? 0 : 1, 7);
    s.operand("x" + std::to_string(s.operands.size()), own, draw.values(count(own)));
  }
  s.op = [=](Inputs in) { return cat(in, dim); };
  return s;
}

Sample draw_roll(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 9, true);
  const int dim = draw.signed_dim(x.size());
  const Index shift = draw.in(-20, 20);
  return of_x(draw, x, fmt::format("dim {} shift {}", dim, shift),
              [=](const Tensor& t) { return roll(t, dim, shift); });
}

Sample draw_flip(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 9, true);
  const std::vector<int> dims = draw.some_dims(x.size());
  return of_x(draw, x, to_string(dims), [=](const Tensor& t) { return flip(t, dims); });
}

Sample draw_cumsum(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 9, true);
  const int dim = draw.signed_dim(x.size());
  return of_x(draw, x, fmt::format("dim {}", dim), [=](const Tensor& t) { return cumsum(t, dim); });
}

}  // namespace

void add_shape(Table& table) {
  table.push_back({"reshape", draw_reshape, 4});
  table.push_back({"unsqueeze", draw_unsqueeze});
  table.push_back({"squeeze", draw_squeeze});
  table.push_back({"permute", draw_permute, 2});
  table.push_back({"slice", draw_slice, 3});
  table.push_back({"select", draw_select});
  table.push_back({"split", draw_split});
  table.push_back({"unbind", draw_unbind});
  table.push_back({"cat", draw_cat, 4});
  table.push_back({"roll", draw_roll, 2});
  table.push_back({"flip", draw_flip, 2});
  table.push_back({"cumsum", draw_cumsum, 2});
}

}  // namespace tessera::property
