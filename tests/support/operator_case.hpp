#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/sharded.hpp"

namespace tessera::testing {

/// An operator with fixed global operands and a fixed cotangent, to be run under any layouts.
struct OperatorCase {
  struct Operand {
    std::string name;
    Shape shape;
    std::vector<double> values;
    std::vector<int> dims;  ///< dimensions that layouts may cut
    bool differentiable = true;
    std::optional<DType> type;  ///< fixed, whatever the operator computes in
  };
  std::string text;
  std::vector<Operand> operands;
  std::function<Tensor(std::span<const Tensor>)> op;
  std::vector<double> cotangent;

  void add(Random& random, std::string name, const Shape& shape, std::vector<int> dims);
};

struct Outcome {
  std::vector<double> y;
  std::vector<std::vector<double>> gradients;  ///< of each operand; empty for the others
};

/// One layout per operand; an empty one makes it plain.
Outcome run_case(OperatorCase& c, DType type, std::span<const Layout> layouts = {});
/// Runs under random layouts of every mesh and compares with `want`.
void expect_same_under_layouts(OperatorCase& c, Random& random, const Outcome& want, DType type,
                               double tolerance);
/// Compares the f64 gradients along random directions with central differences.
void expect_finite_differences(OperatorCase& c, Random& random, const Outcome& at);

}  // namespace tessera::testing
