// Operators that read windows of the grid: convolution and its transpose, pooling, neighbourhood attention.
#include "solver/ops/conv/conv.hpp"
#include "solver/ops/neighborhood_attention/neighborhood_attention.hpp"
#include "solver/ops/pool/pool.hpp"
#include "solver/ops/window/window_parts.hpp"
#include "tests/property/draw.hpp"

namespace tessera::property {
namespace {

constexpr Index kMostPoints[] = {0, 20, 9, 5};  ///< of a grid axis, by the number of axes
constexpr Index kMostTaps[] = {0, 5, 4, 3};

std::string to_string(const InlineVector<Boundary>& boundary) {
  const char* names[] = {"zero", "periodic", "reflect", "replicate"};
  std::string text;
  for (Boundary b : boundary) text += (text.empty() ? "" : ",") + std::string(names[static_cast<int>(b)]);
  return text.empty() ? "default" : text;
}

Index at(const Shape& list, int axis, Index otherwise) {
  return list.empty() ? otherwise : list[list.size() == 1 ? 0 : axis];
}

/// A list of numbers that may also be left to its default.
Shape optional_list(Draw& draw, int axes, Index lo, Index hi) {
  return draw.one_in(5) ? Shape() : draw.per_axis(axes, lo, hi);
}

/// (batch, *grid, channels).
Shape grid_shape(Draw& draw, int axes, Index channels) {
  Shape shape{draw.in(1, 3)};
  for (int a = 0; a < axes; ++a) shape.push_back(draw.in(1, kMostPoints[axes]));
  shape.push_back(channels);
  return shape;
}

std::string to_string(const ConvOptions& o) {
  using tessera::to_string;
  return fmt::format("stride {} padding {} {} dilation {} groups {} boundary {}", to_string(o.stride),
                     to_string(o.padding_lo), to_string(o.padding_hi), to_string(o.dilation), o.groups,
                     property::to_string(o.boundary));
}

/// Whether the window fits the axis, as documented: an output is left, and reflections stay inside.
bool fits(const ConvOptions& o, Index n, Index kernel, int a) {
  const Index reach = at(o.dilation, a, 1) * (kernel - 1), lo = at(o.padding_lo, a, 0),
              hi = at(o.padding_hi, a, 0);
  const Boundary boundary = o.boundary.empty() ? Boundary::zero : o.boundary[o.boundary.size() == 1 ? 0 : a];
  if (boundary == Boundary::reflect && (lo >= n || hi >= n)) return false;
  return n + lo + hi > reach;
}

ConvOptions conv_options(Draw& draw, int axes) {
  ConvOptions o;
  o.stride = optional_list(draw, axes, 1, draw.one_in(4) ? 7 : 3);
  o.dilation = optional_list(draw, axes, 1, 3);
  o.padding_lo = optional_list(draw, axes, draw.one_in(6) ? -2 : 0, 5);
  o.padding_hi = draw.one_in(2) ? o.padding_lo : optional_list(draw, axes, draw.one_in(6) ? -2 : 0, 5);
  if (draw.one_in(2)) {
    for (Index a = draw.one_in(3) ? 1 : axes; a > 0; --a) {
      o.boundary.push_back(static_cast<Boundary>(draw.in(0, 3)));
    }
  }
  o.groups = draw.one_in(3) ? draw.in(2, 3) : 1;
  return o;
}

Sample draw_conv(Draw& draw) {
  const auto axes = static_cast<int>(draw.in(1, 3));
  while (true) {
    const ConvOptions o = conv_options(draw, axes);
    const Shape x = grid_shape(draw, axes, o.groups * draw.in(1, 3));
    Shape weight{o.groups * draw.in(1, 3), x.back() / o.groups};
    bool legal = true;
    for (int a = 0; a < axes; ++a) {
      weight.push_back(draw.in(1, kMostTaps[axes]));
      legal = legal && fits(o, x[1 + a], weight.back(), a);
    }
    bool none_left = false;
    for (int a = 0; a < axes && !legal; ++a) {
      none_left = none_left || x[1 + a] + at(o.padding_lo, a, 0) + at(o.padding_hi, a, 0) <=
                                   at(o.dilation, a, 1) * (weight[2 + a] - 1);
    }
    if (!legal && !(none_left && draw.one_in(10))) continue;
    Sample s;
    s.text = to_string(o);
    if (!legal) s.refusal = "leave no output";
    s.operand("x", x, draw.values(count(x)));
    s.whole("weight", weight, draw.values(count(weight)));
    const bool biased = draw.one_in(2);
    if (biased) s.whole("bias", {weight[0]}, draw.values(weight[0]));
    const Splitting splitting = draw.one_in(3) ? Splitting::never : Splitting::always;
    s.op = [=](Inputs in) {
      const SplittingScope scope(splitting);
      return conv(in[0], in[1], biased ? in[2] : Tensor(), o);
    };
    return s;
  }
}

Sample draw_conv_transpose(Draw& draw) {
  const auto axes = static_cast<int>(draw.in(1, 3));
  ConvTransposeOptions o;
  o.groups = draw.one_in(3) ? draw.in(2, 3) : 1;
  const Shape x = grid_shape(draw, axes, o.groups * draw.in(1, 3));
  Shape weight{x.back(), draw.in(1, 3)};
  for (int a = 0; a < axes; ++a) weight.push_back(draw.in(1, kMostTaps[axes]));
  while (true) {
    o.stride = optional_list(draw, axes, 1, 4);
    o.dilation = optional_list(draw, axes, 1, 3);
    o.padding = optional_list(draw, axes, 0, 4);
    o.output_padding = optional_list(draw, axes, 0, 3);
    bool legal = true;
    for (int a = 0; a < axes; ++a) {
      const Index stride = at(o.stride, a, 1), dilation = at(o.dilation, a, 1);
      const Index more = at(o.output_padding, a, 0);
      const Index outputs =
          (x[1 + a] - 1) * stride - 2 * at(o.padding, a, 0) + dilation * (weight[2 + a] - 1) + more + 1;
      legal = legal && outputs >= 1 && more < std::max(stride, dilation);
    }
    if (legal) break;
  }
  Sample s;
  s.text = fmt::format("stride {} padding {} output_padding {} dilation {} groups {}",
                       tessera::to_string(o.stride), tessera::to_string(o.padding),
                       tessera::to_string(o.output_padding), tessera::to_string(o.dilation), o.groups);
  s.operand("x", x, draw.values(count(x)));
  s.whole("weight", weight, draw.values(count(weight)));
  const bool biased = draw.one_in(2);
  const Index out_channels = weight[1] * o.groups;
  if (biased) s.whole("bias", {out_channels}, draw.values(out_channels));
  const Splitting splitting = draw.one_in(3) ? Splitting::never : Splitting::always;
  s.op = [=](Inputs in) {
    const SplittingScope scope(splitting);
    return conv_transpose(in[0], in[1], biased ? in[2] : Tensor(), o);
  };
  return s;
}

/// Options under which every axis has a window. All taps of a dilated one may lie in the padding.
PoolOptions pool_options(Draw& draw, const Shape& x, bool is_max) {
  const int axes = x.size() - 2;
  while (true) {
    PoolOptions o;
    o.kernel = draw.per_axis(axes, 1, kMostTaps[axes]);
    o.stride = optional_list(draw, axes, 1, 4);
    if (is_max) o.dilation = optional_list(draw, axes, 1, 3);
    o.padding = optional_list(draw, axes, 0, 3);
    o.ceil_mode = draw.one_in(2);
    o.count_include_pad = draw.one_in(2);
    bool legal = true;
    for (int a = 0; a < axes; ++a) {
      const Index spanned = at(o.dilation, a, 1) * (at(o.kernel, a, 1) - 1) + 1, pad = at(o.padding, a, 0);
      legal = legal && 2 * pad <= spanned && x[1 + a] + 2 * pad >= spanned;
    }
    if (legal) return o;
  }
}

Sample draw_pool(Draw& draw, bool is_max) {
  const Shape x = grid_shape(draw, static_cast<int>(draw.in(1, 3)), draw.in(1, 3));
  const PoolOptions o = pool_options(draw, x, is_max);
  Sample s;
  s.text =
      fmt::format("kernel {} stride {} padding {} dilation {} ceil_mode {} count_include_pad {}",
                  tessera::to_string(o.kernel), tessera::to_string(o.stride), tessera::to_string(o.padding),
                  tessera::to_string(o.dilation), o.ceil_mode, o.count_include_pad);
  s.smooth = !is_max || !draw.one_in(3);
  s.operand("x", x,
            !is_max    ? draw.values(count(x))
            : s.smooth ? draw.distinct(count(x))
                       : draw.levels(count(x)));
  // Pending reductions leave rounding errors, which decide between equal elements.
  s.operands[0].partial = s.smooth;
  s.op = [=](Inputs in) -> Outputs {
    if (!is_max) return avg_pool(in[0], o);
    const MaxPooled pooled = max_pool(in[0], o);
    return std::vector<Tensor>{pooled.values, pooled.indices};
  };
  return s;
}

Sample draw_neighborhood(Draw& draw) {
  const auto axes = static_cast<int>(draw.in(1, 3));
  NeighborhoodOptions o;
  o.kernel_size = draw.per_axis(axes, 0, axes == 1 ? 3 : axes == 2 ? 2 : 1);
  for (Index& k : o.kernel_size) k = 2 * k + 1;
  o.dilation = draw.one_in(2) ? Shape{1} : draw.per_axis(axes, 1, axes == 1 ? 3 : 2);
  if (draw.one_in(3)) o.scale = draw.values(1, 0.1, 1.5)[0];
  Shape q{draw.in(1, 2)};
  for (int a = 0; a < axes; ++a) {
    q.push_back(at(o.kernel_size, a, 1) * at(o.dilation, a, 1) + draw.in(0, axes == 1 ? 12 : 3));
  }
  q.push_back(draw.in(1, 3));
  Shape v = q;
  q.push_back(draw.in(1, 4));
  v.push_back(draw.one_in(2) ? q.back() : draw.in(1, 4));
  Sample s;
  s.text = fmt::format("kernel_size {} dilation {} scale {}", tessera::to_string(o.kernel_size),
                       tessera::to_string(o.dilation), o.scale.value_or(0));
  s.operand("q", q, draw.values(count(q)));
  s.operand("k", q, draw.values(count(q)));
  s.operand("v", v, draw.values(count(v)));
  s.op = [=](Inputs in) { return neighborhood_attention(in[0], in[1], in[2], o); };
  return s;
}

}  // namespace

void add_windowed(Table& table) {
  table.push_back({"conv", draw_conv, 6});
  table.push_back({"conv_transpose", draw_conv_transpose, 4});
  table.push_back({"avg_pool", [](Draw& draw) { return draw_pool(draw, false); }, 2});
  table.push_back({"max_pool", [](Draw& draw) { return draw_pool(draw, true); }, 2});
  table.push_back({"neighborhood_attention", draw_neighborhood, 3});
}

}  // namespace tessera::property
