#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "solver/tensor/tensor.hpp"

namespace tessera::testing {

/// A call of an operator by which its claims in the registry are checked.
struct OperatorSample {
  std::string name;
  std::vector<Shape> shapes;  ///< of the operands
  std::map<std::string, std::vector<int>>
      cuts;  ///< kind of dimension -> where each operand is cut; -1: plain
  std::function<Tensor(const std::vector<Tensor>&)> call;
};

/// At least one for each operator of the library and each kind of dimension that it names.
std::vector<OperatorSample> operator_samples();

}  // namespace tessera::testing
