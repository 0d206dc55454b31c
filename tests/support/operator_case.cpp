#include "tests/support/operator_case.hpp"

#include <gtest/gtest.h>

#include "solver/tensor/autograd.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {

void OperatorCase::add(Random& random, std::string name, const Shape& shape, std::vector<int> dims) {
  operands.push_back(
      {std::move(name), shape, random_values(random, count(shape)), std::move(dims), true, {}});
}

Outcome run_case(OperatorCase& c, DType type, std::span<const Layout> layouts) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const auto& o = c.operands[i];
    inputs.push_back(
        tensor_of(o.values, o.shape, o.type.value_or(type), layouts.empty() ? Layout{} : layouts[i]));
    if (o.differentiable) inputs.back().set_requires_grad();
  }
  const Tensor y = c.op(inputs);
  if (c.cotangent.empty()) {
    Random random(99);
    c.cotangent = random_values(random, count(y.shape()));
  }
  y.backward(tensor_of(c.cotangent, y.shape(), y.dtype(), y.is_shard() ? y.layout().reduced() : Layout{}));
  Outcome outcome{values_of(y), {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    outcome.gradients.push_back(c.operands[i].differentiable ? values_of(inputs[i].grad())
                                                             : std::vector<double>{});
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
      expect_close(got.y, want.y, tolerance, tolerance, text + ": y");
      for (std::size_t i = 0; i < c.operands.size(); ++i) {
        expect_close(got.gradients[i], want.gradients[i], tolerance, tolerance,
                     text + ": gradient of " + c.operands[i].name);
      }
    }
  }
}

void expect_finite_differences(OperatorCase& c, Random& random, const Outcome& at) {
  const double h = 1e-5;
  const auto contracted = [&] {
    const NoGrad no_grad;
    std::vector<Tensor> inputs;
    for (const auto& o : c.operands)
      inputs.push_back(tensor_of(o.values, o.shape, o.type.value_or(DType::f64)));
    const std::vector<double> y = values_of(c.op(inputs));
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * c.cotangent[i];
    return sum;
  };
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    auto& o = c.operands[i];
    if (!o.differentiable || o.values.empty()) continue;
    const std::vector<double> direction = random_values(random, count(o.shape)), original = o.values;
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
    EXPECT_NEAR(analytic, numeric, 1e-7 * (1 + size)) << c.text << ": gradient of " << o.name;
  }
}

}  // namespace tessera::testing
