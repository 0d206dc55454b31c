#include "tests/support/operator_case.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

std::vector<Tensor> operands_of(const OperatorCase& c, DType type, std::span<const Layout> layouts) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const auto& o = c.operands[i];
    inputs.push_back(
        addends_of(o.values, o.shape, o.type.value_or(type), layouts.empty() ? Layout{} : layouts[i]));
  }
  return inputs;
}

/// Differentiates the outputs that have a history, contracted with the cotangents of the case.
void differentiate(OperatorCase& c, const Outputs& outputs, Roots roots) {
  const bool first = c.cotangents.empty();
  Random random(99);
  std::vector<Tensor> from, cotangents;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor y = roots == Roots::whole ? full_tensor(outputs[i]) : outputs[i];
    if (first) c.cotangents.push_back(y.requires_grad() ? random_values(random, count(y.shape())) : Values());
    if (!y.requires_grad()) continue;
    from.push_back(y);
    cotangents.push_back(
        tensor_of(c.cotangents.at(i), y.shape(), y.dtype(), y.is_shard() ? y.layout().reduced() : Layout{}));
  }
  if (!from.empty()) backward(from, cotangents);
}

/// The gradient of the operand's value. That of a Partial operand is the gradient of each rank's addend: an
/// average's is the ranks' share of it, an extreme's adds up over the ranks.
Values gradient_of(const std::string& name, const Tensor& operand) {
  const Tensor gradient = operand.grad();
  if (!gradient) return Values(static_cast<std::size_t>(count(operand.shape())));
  if (!operand.is_shard()) {
    require(!gradient.is_shard(), "operator_case", "gradient of {}: found {} for a plain tensor", name,
            describe(gradient));
    return values_of(gradient);
  }
  require(gradient.layout() == operand.layout().reduced(), "operator_case", "gradient of {}: found {} for {}",
          name, describe(gradient), describe(operand));
  Layout summed = gradient.layout();
  double ranks = 1;
  for (int a = 0; a < summed.mesh().axes(); ++a) {
    const Placement& p = operand.layout().placement(a);
    if (p.is_partial() && p.op == ReduceOp::avg) ranks *= summed.mesh().axis_size(a);
    if (p.is_partial() && (p.op == ReduceOp::max || p.op == ReduceOp::min)) {
      summed = summed.with_placement(a, Partial());
    }
  }
  Values values = values_of(gradient.with_layout(summed));
  for (double& v : values) v *= ranks;
  return values;
}

}  // namespace

void OperatorCase::add(Random& random, std::string name, const Shape& shape, std::vector<int> dims) {
  operands.push_back({std::move(name), shape, random_values(random, count(shape)), std::move(dims)});
}

Outcome run_case(OperatorCase& c, DType type, std::span<const Layout> layouts, Roots roots) {
  const std::vector<Tensor> inputs = operands_of(c, type, layouts);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (c.operands[i].differentiable) inputs[i].set_requires_grad();
  }
  const Outputs outputs = c.op(inputs);
  differentiate(c, outputs, roots);
  Outcome outcome;
  for (const Tensor& y : outputs) {
    outcome.shapes.push_back(y.shape());
    outcome.outputs.push_back(values_of(y));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    outcome.gradients.push_back(c.operands[i].differentiable ? gradient_of(c.operands[i].name, inputs[i])
                                                             : Values());
  }
  return outcome;
}

void expect_same_under_layouts(OperatorCase& c, Random& random, const Outcome& want, DType type,
                               double tolerance) {
  for (const Mesh& mesh : meshes()) {
    for (const Cuts cuts : {Cuts::even, Cuts::uneven, Cuts::empty}) {
      std::vector<Layout> layouts;
      std::string text = c.text + " on";
      for (const auto& o : c.operands) {
        const bool plain = o.dims.empty() || pick(random, 0, 4) == 0;
        layouts.push_back(plain ? Layout{} : random_layout(random, mesh, o.shape, o.dims, cuts));
        text += " " + o.name + " " + (plain ? "plain" : to_string(layouts.back()));
      }
      const Outcome got = run_case(c, type, layouts);
      for (std::size_t i = 0; i < want.outputs.size(); ++i) {
        expect_close(got.outputs[i], want.outputs[i], tolerance, tolerance,
                     text + ": output " + std::to_string(i));
      }
      for (std::size_t i = 0; i < c.operands.size(); ++i) {
        expect_close(got.gradients[i], want.gradients[i], tolerance, tolerance,
                     text + ": gradient of " + c.operands[i].name);
      }
    }
  }
}

std::string finite_difference_error(OperatorCase& c, Random& random, const Outcome& at,
                                    std::span<const Layout> layouts, double tolerance) {
  const double h = 1e-5;
  const auto contracted = [&] {
    const NoGrad no_grad;
    const Outputs outputs = c.op(operands_of(c, DType::f64, layouts));
    double sum = 0;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Values y = values_of(outputs[k]);
      for (std::size_t i = 0; i < c.cotangents[k].size(); ++i) {
        if (std::isfinite(y[i])) sum += y[i] * c.cotangents[k][i];
      }
    }
    return sum;
  };
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    auto& o = c.operands[i];
    if (!o.differentiable || o.values.empty()) continue;
    const Values direction = random_values(random, count(o.shape)), original = o.values;
    double analytic = 0, size = 0;
    for (std::size_t j = 0; j < direction.size(); ++j) {
      analytic += direction[j] * at.gradients[i][j];
      size += std::abs(direction[j] * at.gradients[i][j]);
    }
    const auto shift = [&](double step) {
      for (std::size_t j = 0; j < direction.size(); ++j) o.values[j] = original[j] + step * direction[j];
      return contracted();
    };
    const double numeric = (shift(h) - shift(-h)) / (2 * h);
    o.values = original;
    if (!(std::abs(analytic - numeric) <= tolerance * (1 + size))) {
      return fmt::format("gradient of {} along a direction: found {}, finite difference {}, allowed {:.2g}",
                         o.name, analytic, numeric, tolerance * (1 + size));
    }
  }
  return {};
}

void expect_finite_differences(OperatorCase& c, Random& random, const Outcome& at) {
  EXPECT_EQ(finite_difference_error(c, random, at), "") << c.text;
}

}  // namespace tessera::testing
