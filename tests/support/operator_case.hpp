#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/sharded.hpp"

namespace tessera::testing {

/// What an operator gives: one tensor or several.
struct Outputs : std::vector<Tensor> {
  Outputs(Tensor y) { push_back(std::move(y)); }
  Outputs(std::vector<Tensor> tensors) : std::vector<Tensor>(std::move(tensors)) {}
};

/// An operator with fixed global operands and fixed cotangents, to be run under any layouts.
struct OperatorCase {
  struct Operand {
    std::string name;
    Shape shape;
    std::vector<double> values;
    std::vector<int> dims;  ///< dimensions that layouts may cut
    bool differentiable = true;
    std::optional<DType> type = {};  ///< fixed, whatever the operator computes in
    bool partial = false;            ///< whether layouts may leave sums and the like pending
  };
  std::string text;
  std::vector<Operand> operands;
  std::function<Outputs(std::span<const Tensor>)> op;
  /// Of each output, empty for one without history; drawn by the first run.
  std::vector<std::vector<double>> cotangents;

  void add(Random& random, std::string name, const Shape& shape, std::vector<int> dims);
};

struct Outcome {
  std::vector<Shape> shapes;
  std::vector<std::vector<double>> outputs;
  std::vector<std::vector<double>> gradients;  ///< of each operand; empty for the others
};

/// Where the backward pass starts: at the outputs, or at whole plain tensors made of them.
enum class Roots { outputs, whole };

/// One layout per operand; an undefined one makes it plain. Throws where a gradient has not the layout of its
/// operand.
Outcome run_case(OperatorCase& c, DType type, std::span<const Layout> layouts = {},
                 Roots roots = Roots::outputs);
/// Runs under random layouts of every mesh and compares with `want`.
void expect_same_under_layouts(OperatorCase& c, Random& random, const Outcome& want, DType type,
                               double tolerance);
/// What is wrong with the f64 gradients `at`, compared along one random direction per operand with central
/// differences of the operator under these layouts; empty if nothing.
std::string finite_difference_error(OperatorCase& c, Random& random, const Outcome& at,
                                    std::span<const Layout> layouts = {}, double tolerance = 1e-7);
/// The same of plain tensors, as an expectation.
void expect_finite_differences(OperatorCase& c, Random& random, const Outcome& at);

}  // namespace tessera::testing
