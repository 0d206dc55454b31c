// Operators after operators: each takes what layouts the one before leaves, and gradients meet where a value
// is used more than once.
#include <algorithm>
#include <cmath>

#include "solver/ops/attention/attention.hpp"
#include "solver/ops/conv/conv.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/interpolate/interpolate.hpp"
#include "solver/ops/linear/linear.hpp"
#include "solver/ops/matmul/matmul.hpp"
#include "solver/ops/norm/norm.hpp"
#include "solver/ops/pad/pad.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/softmax/softmax.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/property/draw.hpp"
#include "tests/property/layouts.hpp"

namespace tessera::property {
namespace {

/// What a step makes of the value so far and the operands.
using Run = std::function<Tensor(const Tensor&, Inputs)>;
struct Step {
  std::string text;
  Run run;
};

/// The index of a new operand.
std::size_t add_operand(Draw& draw, Sample& s, const Shape& shape, bool whole = false) {
  const std::string name = "x" + std::to_string(s.operands.size());
  if (whole) {
    s.whole(name, shape, draw.values(count(shape)));
  } else {
    s.operand(name, shape, draw.values(count(shape)));
  }
  return s.operands.size() - 1;
}

Step elementwise_step(Draw& draw, Sample& s, const Shape& shape) {
  switch (draw.in(0, 4)) {
    case 0:
      return {"gelu", [](const Tensor& y, Inputs) { return gelu(y); }};
    case 1:
      return {"tanh", [](const Tensor& y, Inputs) { return tanh(y); }};
    case 2:
      return {"times itself", [](const Tensor& y, Inputs) { return mul(y, y); }};
    default: {
      Shape other = shape;
      for (Index& n : other) n = draw.one_in(3) ? 1 : n;
      const std::size_t at = add_operand(draw, s, other);
      if (draw.one_in(2)) return {"plus", [at](const Tensor& y, Inputs in) { return add(y, in[at]); }};
      return {"times", [at](const Tensor& y, Inputs in) { return mul(in[at], y); }};
    }
  }
}

Step moving_step(Draw& draw, const Shape& shape) {
  const int dim = draw.dim(shape.size());
  const Index n = shape[dim];
  switch (draw.in(0, 5)) {
    case 0:
      return {fmt::format("roll {}", dim), [dim](const Tensor& y, Inputs) { return roll(y, dim, 2); }};
    case 1:
      return {fmt::format("flip {}", dim),
              [dim](const Tensor& y, Inputs) { return flip(y, std::vector<int>{dim}); }};
    case 2: {
      std::vector<int> dims = testing::all_dims(shape);
      std::shuffle(dims.begin(), dims.end(), draw.random());
      return {fmt::format("permute ({})", fmt::join(dims, ",")),
              [dims](const Tensor& y, Inputs) { return permute(y, dims); }};
    }
    case 3: {
      const Index start = draw.in(0, n - 1), stop = draw.in(start + 1, n), step = draw.in(1, 2);
      return {fmt::format("slice {} {}:{}:{}", dim, start, stop, step),
              [=](const Tensor& y, Inputs) { return slice(y, dim, start, stop, step); }};
    }
    case 4: {
      Shape lo = Shape::filled(shape.size(), 0), hi = lo;
      lo[dim] = draw.in(0, 2);
      hi[dim] = draw.in(0, 2);
      const PadMode mode = draw.one_in(2) ? PadMode::periodic : PadMode::constant;
      return {fmt::format("pad {} {}", to_string(lo), to_string(hi)),
              [=](const Tensor& y, Inputs) { return pad(y, lo, hi, mode); }};
    }
    default: {
      const Shape grouped = draw.regrouped(shape);
      return {"reshape " + to_string(grouped), [=](const Tensor& y, Inputs) { return reshape(y, grouped); }};
    }
  }
}

Step along_step(Draw& draw, Sample& s, const Shape& shape) {
  const int dim = draw.dim(shape.size());
  switch (draw.in(0, 5)) {
    case 0:
      return {fmt::format("cumsum {}", dim), [dim](const Tensor& y, Inputs) { return cumsum(y, dim); }};
    case 1:
      return {fmt::format("softmax {}", dim), [dim](const Tensor& y, Inputs) { return softmax(y, dim); }};
    case 2: {
      const bool keepdim = draw.one_in(2);
      return {fmt::format("mean {} keepdim {}", dim, keepdim),
              [=](const Tensor& y, Inputs) { return mean(y, std::vector<int>{dim}, keepdim); }};
    }
    case 3: {
      const bool keepdim = draw.one_in(2);
      return {fmt::format("sum {} keepdim {}", dim, keepdim),
              [=](const Tensor& y, Inputs) { return sum(y, std::vector<int>{dim}, keepdim); }};
    }
    case 4: {
      Shape other = shape;
      other[dim] = draw.in(1, 3);
      const std::size_t at = add_operand(draw, s, other);
      return {fmt::format("cat {}", dim), [=](const Tensor& y, Inputs in) {
                return cat(std::vector<Tensor>{y, in[at], y}, dim);
              }};
    }
    default:
      return {"layer_norm",
              [last = shape.back()](const Tensor& y, Inputs) { return layer_norm(y, {last}, {}, {}, 0.1); }};
  }
}

/// Of a value with two dimensions or more.
Step dense_step(Draw& draw, Sample& s, const Shape& shape) {
  const int grid = shape.size() - 2;
  const Index kind = draw.in(0, grid >= 1 && grid <= 3 ? 4 : 1);
  if (kind == 0) {
    const std::size_t at = add_operand(draw, s, {draw.in(1, 4), shape.back()});
    return {"linear", [at](const Tensor& y, Inputs in) { return linear(y, in[at]); }};
  }
  if (kind == 1) {
    std::vector<int> dims = testing::all_dims(shape);
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    return {"matmul with its transpose",
            [dims](const Tensor& y, Inputs) { return matmul(y, permute(y, dims)); }};
  }
  if (kind == 2) {
    Shape weight{draw.in(1, 3), shape.back()};
    for (int a = 0; a < grid; ++a) weight.push_back(draw.in(1, 3));
    const std::size_t at = add_operand(draw, s, weight, true);
    ConvOptions o;
    o.padding_lo = o.padding_hi = {1};
    o.stride = {draw.in(1, 2)};
    o.boundary = {draw.one_in(2) ? Boundary::periodic : Boundary::zero};
    return {fmt::format("conv stride {}", to_string(o.stride)),
            [=](const Tensor& y, Inputs in) { return conv(y, in[at], {}, o); }};
  }
  if (kind == 3) {
    Shape size;
    for (int a = 0; a < grid; ++a) size.push_back(draw.in(1, 6));
    return {"interpolate " + to_string(size),
            [=](const Tensor& y, Inputs) { return interpolate(y, size, InterpolateMode::linear); }};
  }
  return {"attention to itself", [](const Tensor& y, Inputs) {
            const Tensor heads = unsqueeze(y, -2);
            return squeeze(attention(heads, heads, heads), -2);
          }};
}

Step layout_step(Draw& draw, const Shape& shape) {
  const Layout target = draw_layout(draw, shape, testing::all_dims(shape), true);
  return {"to " + to_string(target),
          [target](const Tensor& y, Inputs) { return y.is_shard() ? redistribute(y, target) : y; }};
}

Step draw_step(Draw& draw, Sample& s, const Shape& shape) {
  if (draw.one_in(5)) return layout_step(draw, shape);
  if (shape.empty() || draw.one_in(3)) return elementwise_step(draw, s, shape);
  if (shape.size() >= 2 && shape.size() <= 6 && draw.one_in(3)) return dense_step(draw, s, shape);
  return draw.one_in(2) ? moving_step(draw, shape) : along_step(draw, s, shape);
}

/// The values so far on one process, from which the next step learns its shape.
Tensor value_after(const Sample& s, const Step& step, const Tensor& y) {
  std::vector<Tensor> inputs;
  for (const auto& o : s.operands) inputs.push_back(testing::tensor_of(o.values, o.shape));
  return step.run(y, inputs);
}

Sample draw_chain(Draw& draw) {
  const NoGrad no_grad;
  Sample s;
  s.spoilable = false;
  s.tolerance = 1e-10;
  s.f32_tolerance = 1e-2;
  s.difference_tolerance = 1e-5;
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 5);
  s.operand("x", x, draw.values(count(x)));
  std::vector<Run> steps;
  Tensor y = testing::tensor_of(s.operands[0].values, x);
  for (Index i = draw.in(2, 6); i > 0; --i) {
    const Step step = draw_step(draw, s, y.shape());
    const Tensor next = value_after(s, step, y);
    // Neither too large nor of too many dimensions for the steps to come, nor out of scale.
    double largest = 0;
    for (double v : next.to_host<double>()) largest = std::max(largest, std::abs(v));
    if (count(next.shape()) > 2000 || next.ndim() > 6 || largest > 100) break;
    const bool residual = next.shape() == y.shape() && draw.one_in(3);
    y = residual ? add(next, y) : next;
    s.text += (s.text.empty() ? "" : " | ") + step.text + (residual ? " plus its input" : "");
    steps.push_back(!residual ? step.run : [run = step.run](const Tensor& value, Inputs in) {
      return add(run(value, in), value);
    });
  }
  s.op = [=](Inputs in) {
    Tensor value = in[0];
    for (const Run& run : steps) value = run(value, in);
    return value;
  };
  return s;
}

}  // namespace

void add_chains(Table& table) {
  table.push_back({"chain", draw_chain, 16});
}

}  // namespace tessera::property
