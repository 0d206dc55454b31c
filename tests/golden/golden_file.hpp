#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/hdf5/file.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera::golden {

/// An array of a golden file; integers are exact in double.
struct Array {
  Shape shape;
  bool integer = false;
  std::vector<double> values;

  /// A plain tensor of these values: of `type`, or i64 for integers.
  Tensor tensor(DType type) const;
};

using Arrays = std::map<std::string, Array>;

Array read_array(const hdf5::Group& group, const std::string& name);
/// Every dataset of the group `name`; none where there is no such group.
Arrays read_arrays(const hdf5::Group& group, const std::string& name);
/// Attributes that hold JSON text, text or a number. Throw Error(input_file) where they are missing or
/// malformed.
nlohmann::json json_attribute(const hdf5::Group& group, const std::string& name);
std::string text_attribute(const hdf5::Group& group, const std::string& name);
double number_attribute(const hdf5::Group& group, const std::string& name);

/// Which dimensions of an input the domain mesh axes shard, by input name.
using Sharding = std::map<std::string, std::vector<int>>;

/// One case of an operator file.
struct OpCase {
  std::string name, op;
  nlohmann::json attributes;
  std::vector<std::string> input_order, output_order;
  Arrays inputs, outputs, cotangents, gradients;
  std::vector<Sharding> shardings;
  double rtol = 0, atol = 0;
};

OpCase read_op_case(const hdf5::Group& cases, const std::string& name);

}  // namespace tessera::golden
