#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "solver/tensor/tensor.hpp"

namespace tessera::golden {

/// Attributes and inputs of a case, and which of them the operator has looked at.
class Arguments {
 public:
  Arguments(nlohmann::json attributes, std::map<std::string, Tensor> inputs);

  /// An input; undefined where the case has none of this name and `optional` is set.
  Tensor input(const std::string& name, bool optional = false);
  /// True where the attribute is there and not null.
  bool has(const std::string& name);
  Index integer(const std::string& name);
  Index integer(const std::string& name, Index otherwise);
  double number(const std::string& name);
  double number(const std::string& name, double otherwise);
  bool flag(const std::string& name, bool otherwise);
  std::string text(const std::string& name);
  /// A number or a list of numbers.
  Shape shape(const std::string& name);
  std::vector<int> dims(const std::string& name);

  /// Throws, naming them, where attributes or inputs are left over: they mean something that is not done.
  void expect_all_used() const;

 private:
  template <typename T>
  T get(const std::string& name);

  nlohmann::json attributes_;
  std::map<std::string, Tensor> inputs_;
  std::set<std::string> used_attributes_, used_inputs_;
};

/// Runs an operator named as in torch.nn.functional or torch, on tensors in PyTorch's order of dimensions.
/// Throws where the operator or one of its arguments is unknown.
std::vector<Tensor> run_op(const std::string& op, Arguments arguments);

}  // namespace tessera::golden
