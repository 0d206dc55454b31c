#include "tests/golden/golden_file.hpp"

namespace tessera::golden {
namespace {

template <typename T>
T converted(const nlohmann::json& value, const hdf5::Group& group, const std::string& name) {
  try {
    return value.get<T>();
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::input_file, group.where(), "attribute '{}': {}", name, error.what());
  }
}

}  // namespace

Tensor Array::tensor(DType type) const {
  const Tensor t = Tensor::empty(shape, integer ? DType::i64 : type);
  t.copy_from_host(std::span<const double>(values));
  return t;
}

Array read_array(const hdf5::Group& group, const std::string& name) {
  const hdf5::Dataset dataset = group.dataset(name);
  const bool integer = dataset.element() != hdf5::Element::f32 && dataset.element() != hdf5::Element::f64;
  return {dataset.shape(), integer, dataset.read_all<double>()};
}

Arrays read_arrays(const hdf5::Group& group, const std::string& name) {
  Arrays arrays;
  if (!group.has_group(name)) return arrays;
  const hdf5::Group folder = group.group(name);
  for (const std::string& member : folder.members(true)) arrays[member] = read_array(folder, member);
  return arrays;
}

nlohmann::json json_attribute(const hdf5::Group& group, const std::string& name) {
  const std::string text = text_attribute(group, name);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::input_file, group.where(), "attribute '{}' is not JSON: {}", name, error.what());
  }
}

std::string text_attribute(const hdf5::Group& group, const std::string& name) {
  const auto text = group.text(name);
  if (!text) fail(ExitCode::input_file, group.where(), "attribute '{}' is missing", name);
  return *text;
}

double number_attribute(const hdf5::Group& group, const std::string& name) {
  const auto number = group.number(name);
  if (!number) fail(ExitCode::input_file, group.where(), "attribute '{}' is missing", name);
  return *number;
}

OpCase read_op_case(const hdf5::Group& cases, const std::string& name) {
  const hdf5::Group group = cases.group(name);
  OpCase c;
  c.name = name;
  c.op = text_attribute(group, "op");
  c.attributes = json_attribute(group, "attrs");
  const auto names = [&](const char* attribute) {
    return converted<std::vector<std::string>>(json_attribute(group, attribute), group, attribute);
  };
  c.input_order = names("input_order");
  c.output_order = names("output_order");
  c.inputs = read_arrays(group, "inputs");
  c.outputs = read_arrays(group, "outputs");
  c.cotangents = read_arrays(group, "cotangents");
  c.gradients = read_arrays(group, "grads");
  c.shardings = converted<std::vector<Sharding>>(json_attribute(group, "shardings"), group, "shardings");
  c.rtol = number_attribute(group, "rtol");
  c.atol = number_attribute(group, "atol");
  for (const std::string& input : c.input_order) {
    if (!c.inputs.count(input)) fail(ExitCode::input_file, group.where(), "input '{}' is missing", input);
  }
  for (const std::string& output : c.output_order) {
    if (!c.outputs.count(output)) fail(ExitCode::input_file, group.where(), "output '{}' is missing", output);
  }
  return c;
}

}  // namespace tessera::golden
