// Operators on each element, and reductions.
#include "solver/ops/elementwise/elementwise.hpp"

#include <limits>

#include "solver/ops/reduce/reduce.hpp"
#include "tests/property/draw.hpp"

namespace tessera::property {
namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

/// Values in +-[least, 1): clear of 0.
Values clear_of_zero(Draw& draw, Index count, double least = 0.05) {
  Values values = draw.values(count, least, 1);
  for (double& v : values) v = draw.one_in(2) ? v : -v;
  return values;
}

enum class Domain { all, not_zero, positive };

Values values_in(Draw& draw, Domain domain, Index count) {
  if (domain == Domain::all) return draw.values(count, -3, 3);
  return domain == Domain::positive ? draw.values(count, 0.1, 2) : clear_of_zero(draw, count);
}

Generator unary(const char* name, Unary op, Domain domain) {
  return {name, [=](Draw& draw) {
            const Shape x = draw.shape(static_cast<int>(draw.in(0, 5)), 6, true);
            Sample s;
            s.operand("x", x, values_in(draw, domain, count(x)));
            s.op = [op](Inputs in) { return op(in[0]); };
            return s;
          }};
}

/// A shape that broadcasts against `shape`.
Shape broadcastable(Draw& draw, const Shape& shape) {
  Shape other = shape;
  for (Index& n : other) n = draw.one_in(4) ? 1 : n;
  const Index fewer = draw.one_in(3) ? draw.in(0, other.size()) : 0;
  for (Index i = 0; i < fewer; ++i) other.erase(0);
  return other;
}

/// Two shapes that broadcast against each other, either one the larger.
std::pair<Shape, Shape> two_shapes(Draw& draw) {
  const Shape whole = draw.shape(static_cast<int>(draw.in(0, 4)), 6, true);
  const Shape a = draw.one_in(4) ? broadcastable(draw, whole) : whole;
  const Shape b = draw.one_in(3) ? whole : broadcastable(draw, whole);
  return draw.one_in(2) ? std::pair{a, b} : std::pair{b, a};
}

Generator binary(const char* name, Binary op, Domain divisor) {
  return {name, [=](Draw& draw) {
            const auto [a, b] = two_shapes(draw);
            Sample s;
            s.operand("a", a, draw.values(count(a)));
            s.operand("b", b, values_in(draw, divisor, count(b)));
            s.op = [op](Inputs in) { return op(in[0], in[1]); };
            return s;
          }};
}

/// Operators that ask which operand is larger: clearly apart, or often equal.
Generator comparison(const char* name, Binary op) {
  return {name, [=](Draw& draw) {
            const auto [a, b] = two_shapes(draw);
            const bool apart = draw.one_in(2);
            Sample s;
            s.smooth = apart;
            s.operand("a", a, draw.levels(count(a)));
            s.operand("b", b, draw.levels(count(b)));
            for (double& v : s.operands[1].values) v += apart ? 0.125 : 0;
            for (auto& o : s.operands) o.partial = apart;
            s.op = [op](Inputs in) { return op(in[0], in[1]); };
            return s;
          }};
}

Sample draw_with_scalar(Draw& draw, bool product) {
  const Shape x = draw.shape(static_cast<int>(draw.in(0, 4)), 6, true);
  const double scalar = draw.values(1)[0];
  Sample s;
  s.text = fmt::format("scalar {}", scalar);
  s.operand("x", x, draw.values(count(x)));
  s.op = [=](Inputs in) { return product ? mul(in[0], scalar) : add(in[0], scalar); };
  return s;
}

Sample draw_clamp(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 6, true);
  const double none = std::numeric_limits<double>::infinity();
  const double low = draw.one_in(4) ? -none : -0.375, high = draw.one_in(4) ? none : 0.375;
  Sample s;
  s.text = fmt::format("low {} high {}", low, high);
  s.operand("x", x, draw.levels(count(x)));
  s.op = [=](Inputs in) { return clamp(in[0], low, high); };
  return s;
}

Sample draw_leaky_relu(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 6, true);
  const double slope = draw.values(1)[0];
  Sample s;
  s.text = fmt::format("slope {}", slope);
  s.operand("x", x, clear_of_zero(draw, count(x)));
  s.op = [=](Inputs in) { return leaky_relu(in[0], slope); };
  return s;
}

Sample draw_where(Draw& draw) {
  const auto [a, b] = two_shapes(draw);
  const Shape& larger = a.size() >= b.size() ? a : b;
  const Shape condition = draw.one_in(2) ? larger : broadcastable(draw, larger);
  Sample s;
  s.constant("condition", condition, draw.integers(count(condition), 0, 2), DType::u8);
  s.operand("a", a, draw.values(count(a)));
  s.operand("b", b, draw.values(count(b)));
  s.op = [](Inputs in) { return where(in[0], in[1], in[2]); };
  return s;
}

using Reduction = std::function<Tensor(const Tensor&, std::span<const int>, bool)>;

Generator reduction(const char* name, const Reduction& op, bool extreme) {
  return {name,
          [=](Draw& draw) {
            const Shape x = draw.shape(static_cast<int>(draw.in(1, 5)), 6);
            const std::vector<int> dims = draw.some_dims(x.size());
            const bool keepdim = draw.one_in(2);
            Sample s;
            s.text = "dims (";
            for (int d : dims) s.text += std::to_string(d) + " ";
            s.text += fmt::format(") keepdim {}", keepdim);
            s.smooth = !extreme || draw.one_in(2);
            s.operand("x", x,
                      !extreme   ? draw.values(count(x))
                      : s.smooth ? draw.distinct(count(x))
                                 : draw.levels(count(x)));
            s.operands[0].partial = s.smooth;
            s.op = [=](Inputs in) { return op(in[0], dims, keepdim); };
            return s;
          },
          2};
}

Sample draw_var(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 5)), 6);
  const std::vector<int> dims = draw.some_dims(x.size());
  const bool keepdim = draw.one_in(2);
  Index reduced = 1;
  for (int d : dims) reduced *= x[d < 0 ? d + x.size() : d];
  if (dims.empty()) reduced = count(x);
  const bool unbiased = reduced > 1 && draw.one_in(2);
  Sample s;
  s.text = "dims (";
  for (int d : dims) s.text += std::to_string(d) + " ";
  s.text += fmt::format(") keepdim {} unbiased {}", keepdim, unbiased);
  s.operand("x", x, draw.values(count(x)));
  s.op = [=](Inputs in) { return var(in[0], dims, keepdim, unbiased); };
  return s;
}

void add_unary(Table& table) {
  table.push_back(unary("relu", relu, Domain::not_zero));
  table.push_back({"leaky_relu", draw_leaky_relu});
  table.push_back(unary("elu", elu, Domain::not_zero));
  // Exact in f32 and f64, so that the slopes can be held against differences.
  table.push_back(unary(
      "cast", [](const Tensor& x) { return cast(neg(cast(x, DType::f64)), x.dtype()); }, Domain::all));
  table.push_back(unary("gelu", gelu, Domain::all));
  table.push_back(unary("gelu_tanh", gelu_tanh, Domain::all));
  table.push_back(unary("silu", silu, Domain::all));
  table.push_back(unary("sigmoid", sigmoid, Domain::all));
  table.push_back(unary("softplus", softplus, Domain::all));
  table.push_back(unary("tanh", tanh, Domain::all));
  table.push_back(unary("exp", exp, Domain::all));
  table.push_back(unary("log", log, Domain::positive));
  table.push_back(unary("sqrt", sqrt, Domain::positive));
  table.push_back(unary("square", square, Domain::all));
  table.push_back(unary("abs", abs, Domain::not_zero));
  table.push_back(unary("neg", neg, Domain::all));
}

}  // namespace

void add_elementwise(Table& table) {
  add_unary(table);
  table.push_back({"add_scalar", [](Draw& draw) { return draw_with_scalar(draw, false); }});
  table.push_back({"mul_scalar", [](Draw& draw) { return draw_with_scalar(draw, true); }});
  table.push_back({"clamp", draw_clamp});
  table.push_back(binary("add", add, Domain::all));
  table.push_back(binary("sub", sub, Domain::all));
  table.push_back(binary("mul", mul, Domain::all));
  table.push_back(binary("div", div, Domain::not_zero));
  table.push_back(comparison("maximum", maximum));
  table.push_back(comparison("minimum", minimum));
  table.push_back(comparison("eq", eq));
  table.push_back(comparison("ne", ne));
  table.push_back(comparison("lt", lt));
  table.push_back(comparison("le", le));
  table.push_back(comparison("gt", gt));
  table.push_back(comparison("ge", ge));
  table.push_back({"where", draw_where, 2});
}

void add_reductions(Table& table) {
  table.push_back(reduction("sum", sum, false));
  table.push_back(reduction("mean", mean, false));
  table.push_back(reduction("amax", amax, true));
  table.push_back(reduction("amin", amin, true));
  table.push_back({"var", draw_var, 2});
}

}  // namespace tessera::property
