// Normalisations.
#include "solver/ops/norm/norm.hpp"
#include "tests/property/draw.hpp"

namespace tessera::property {
namespace {

/// (batch, *grid, channels).
Shape field_shape(Draw& draw, int least_axes, Index channels) {
  Shape shape{draw.in(1, 3)};
  for (Index a = draw.in(least_axes, 3); a > 0; --a) shape.push_back(draw.in(1, 5));
  shape.push_back(channels);
  return shape;
}

/// Adds weight and bias, each, one or none; the operator reads them through the returned functions.
struct AffineOperands {
  int weight = -1, bias = -1;

  AffineOperands(Draw& draw, Sample& s, const Shape& shape) {
    if (draw.one_in(2)) weight = add(draw, s, "weight", shape);
    if (draw.one_in(2)) bias = add(draw, s, "bias", shape);
  }
  Tensor weight_of(Inputs in) const { return weight < 0 ? Tensor() : in[static_cast<std::size_t>(weight)]; }
  Tensor bias_of(Inputs in) const { return bias < 0 ? Tensor() : in[static_cast<std::size_t>(bias)]; }

 private:
  static int add(Draw& draw, Sample& s, const char* name, const Shape& shape) {
    s.operand(name, shape, draw.values(count(shape)));
    return static_cast<int>(s.operands.size()) - 1;
  }
};

/// Large enough that a sample without variance does not blow rounding errors up.
double draw_eps(Draw& draw) {
  return draw.one_in(2) ? 1e-2 : 0.25;
}

Sample draw_layer_norm(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 5)), 6);
  Shape normalized;
  for (int d = draw.dim(x.size()); d < x.size(); ++d) normalized.push_back(x[d]);
  const double eps = draw_eps(draw);
  Sample s;
  s.f32_tolerance = 1e-3;
  s.text = fmt::format("normalized_shape {} eps {}", to_string(normalized), eps);
  s.operand("x", x, draw.values(count(x)));
  const AffineOperands affine(draw, s, normalized);
  s.op = [=](Inputs in) {
    return layer_norm(in[0], normalized, affine.weight_of(in), affine.bias_of(in), eps);
  };
  return s;
}

/// With GELU and, in half of the cases, a residual in one pass, or the norm alone.
Sample draw_group_norm(Draw& draw, bool with_gelu) {
  const Index groups = draw.in(1, 4), channels = groups * draw.in(1, 3);
  const Shape x = field_shape(draw, 0, channels);
  const double eps = draw_eps(draw);
  Sample s;
  s.f32_tolerance = 1e-3;
  s.text = fmt::format("groups {} eps {}", groups, eps);
  s.operand("x", x, draw.values(count(x)));
  const bool has_residual = with_gelu && draw.one_in(2);
  if (has_residual) s.operand("residual", x, draw.values(count(x)));
  const AffineOperands affine(draw, s, {channels});
  s.op = [=](Inputs in) {
    const Tensor weight = affine.weight_of(in), bias = affine.bias_of(in);
    return with_gelu ? group_norm_gelu(in[0], groups, weight, bias, has_residual ? in[1] : Tensor(), eps)
                     : group_norm(in[0], groups, weight, bias, eps);
  };
  return s;
}

Sample draw_instance_norm(Draw& draw) {
  const Shape x = field_shape(draw, 1, draw.in(1, 4));
  const double eps = draw_eps(draw);
  Sample s;
  s.f32_tolerance = 1e-3;
  s.text = fmt::format("eps {}", eps);
  s.operand("x", x, draw.values(count(x)));
  const AffineOperands affine(draw, s, {x.back()});
  s.op = [=](Inputs in) { return instance_norm(in[0], affine.weight_of(in), affine.bias_of(in), eps); };
  return s;
}

Sample draw_batch_norm(Draw& draw) {
  const Shape x = field_shape(draw, 0, draw.in(1, 4));
  BatchNormOptions o;
  o.training = draw.one_in(2);
  o.momentum = draw.values(1, 0.05, 0.9)[0];
  o.eps = draw_eps(draw);
  const bool running = !o.training || draw.one_in(2);
  const Index channels = x.back(), points = count(x) / channels;
  Sample s;
  s.f32_tolerance = 1e-3;
  s.text = fmt::format("training {} running {} momentum {} eps {}", o.training, running, o.momentum, o.eps);
  s.operand("x", x, draw.values(count(x)));
  const AffineOperands affine(draw, s, {channels});
  if (o.training && points < 2) s.refusal = "[batch_norm] found 1 value per channel";
  const Values mean = draw.values(channels), variance = draw.values(channels, 0.2, 2);
  s.op = [=](Inputs in) -> Outputs {
    // Fresh statistics for each run, which a training run changes.
    const Tensor m = running ? testing::tensor_of(mean, {channels}, in[0].dtype()) : Tensor();
    const Tensor v = running ? testing::tensor_of(variance, {channels}, in[0].dtype()) : Tensor();
    const Tensor y = batch_norm(in[0], m, v, affine.weight_of(in), affine.bias_of(in), o);
    return running ? std::vector<Tensor>{y, m, v} : std::vector<Tensor>{y};
  };
  return s;
}

}  // namespace

void add_norms(Table& table) {
  table.push_back({"layer_norm", draw_layer_norm, 3});
  table.push_back({"group_norm", [](Draw& draw) { return draw_group_norm(draw, false); }, 3});
  table.push_back({"group_norm_gelu", [](Draw& draw) { return draw_group_norm(draw, true); }, 3});
  table.push_back({"instance_norm", draw_instance_norm, 2});
  table.push_back({"batch_norm", draw_batch_norm, 3});
}

}  // namespace tessera::property
