// Attention: shapes of tokens, masks, causality, methods.
#include "solver/ops/attention/attention.hpp"

#include <cmath>

#include "tests/property/draw.hpp"

namespace tessera::property {
namespace {

/// (batch, *tokens, heads, size), one to three token axes.
Shape token_shape(Draw& draw, Index batch, Index heads, Index size) {
  Shape shape{batch};
  const Index axes = draw.in(1, 3);
  for (Index a = 0; a < axes; ++a) shape.push_back(draw.in(1, axes == 1 ? 13 : axes == 2 ? 5 : 3));
  shape.push_back(heads);
  shape.push_back(size);
  return shape;
}

Index tokens_of(const Shape& shape) {
  Index n = 1;
  for (int d = 1; d < shape.size() - 2; ++d) n *= shape[d];
  return n;
}

/// Values of a mask: zeros and ones, or numbers to be added, some of them minus infinity.
Values mask_values(Draw& draw, Index count, bool adds) {
  Values values = adds ? draw.values(count) : draw.integers(count, 0, 1);
  for (double& v : values) {
    if (adds && draw.one_in(8)) v = -INFINITY;
  }
  return values;
}

std::string text_of_method(AttentionMethod method) {
  const char* names[] = {"automatic", "ring", "heads"};
  return names[static_cast<int>(method)];
}

Sample draw_attention(Draw& draw) {
  const Index batch = draw.in(1, 2), heads = draw.in(1, 6);
  const Shape q = token_shape(draw, batch, heads, draw.in(1, 5));
  Shape k = draw.one_in(3) ? q : token_shape(draw, batch, heads, q.back());
  Shape v = k;
  v.back() = draw.one_in(2) ? v.back() : draw.in(1, 5);
  AttentionOptions o;
  o.causal = draw.one_in(3);
  o.method = static_cast<AttentionMethod>(draw.in(0, 2));
  if (draw.one_in(3)) o.scale = draw.values(1, 0.1, 1.5)[0];
  const Index mask_kind = draw.one_in(2) ? draw.in(1, 2) : 0;
  Sample s;
  s.text = fmt::format("causal {} scale {} method {} mask {}", o.causal, o.scale.value_or(0),
                       text_of_method(o.method),
                       mask_kind == 0   ? "none"
                       : mask_kind == 1 ? "u8"
                                        : "added");
  s.operand("q", q, draw.values(count(q)));
  s.operand("k", k, draw.values(count(k)));
  s.operand("v", v, draw.values(count(v)));
  if (mask_kind > 0) {
    Shape mask{batch, heads, tokens_of(q), tokens_of(k)};
    for (Index& n : mask) n = draw.one_in(3) ? 1 : n;
    s.constant("mask", mask, mask_values(draw, count(mask), mask_kind == 2),
               mask_kind == 2 ? DType::f64 : DType::u8);
  }
  s.op = [=](Inputs in) {
    AttentionOptions with_mask = o;
    if (mask_kind > 0) with_mask.mask = in[3];
    return attention(in[0], in[1], in[2], with_mask);
  };
  return s;
}

}  // namespace

void add_attention(Table& table) {
  table.push_back({"attention", draw_attention, 6});
}

}  // namespace tessera::property
