#include "tests/golden/op_table.hpp"

namespace tessera::golden {

Arguments::Arguments(nlohmann::json attributes, std::map<std::string, Tensor> inputs)
    : attributes_(std::move(attributes)), inputs_(std::move(inputs)) {}

Tensor Arguments::input(const std::string& name, bool optional) {
  used_inputs_.insert(name);
  const auto found = inputs_.find(name);
  if (found != inputs_.end()) return found->second;
  if (!optional) fail(ExitCode::input_file, "golden", "the operator has no input '{}'", name);
  return {};
}

bool Arguments::has(const std::string& name) {
  used_attributes_.insert(name);
  return attributes_.contains(name) && !attributes_[name].is_null();
}

template <typename T>
T Arguments::get(const std::string& name) {
  if (!has(name)) fail(ExitCode::input_file, "golden", "the operator has no attribute '{}'", name);
  try {
    return attributes_[name].get<T>();
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::input_file, "golden", "attribute '{}': {}", name, error.what());
  }
}

Index Arguments::integer(const std::string& name) {
  return get<Index>(name);
}
Index Arguments::integer(const std::string& name, Index otherwise) {
  return has(name) ? get<Index>(name) : otherwise;
}
double Arguments::number(const std::string& name) {
  return get<double>(name);
}
double Arguments::number(const std::string& name, double otherwise) {
  return has(name) ? get<double>(name) : otherwise;
}
bool Arguments::flag(const std::string& name, bool otherwise) {
  return has(name) ? get<bool>(name) : otherwise;
}
std::string Arguments::text(const std::string& name) {
  return get<std::string>(name);
}

Shape Arguments::shape(const std::string& name) {
  if (has(name) && attributes_[name].is_number()) return {get<Index>(name)};
  const auto values = get<std::vector<Index>>(name);
  return Shape(values.begin(), values.end());
}

std::vector<int> Arguments::dims(const std::string& name) {
  if (has(name) && attributes_[name].is_number()) return {get<int>(name)};
  return get<std::vector<int>>(name);
}

void Arguments::expect_all_used() const {
  for (const auto& [name, value] : attributes_.items()) {
    if (!used_attributes_.count(name) && !value.is_null()) {
      fail(ExitCode::input_file, "golden", "unknown attribute '{}' = {}", name, value.dump());
    }
  }
  for (const auto& [name, value] : inputs_) {
    if (!used_inputs_.count(name)) fail(ExitCode::input_file, "golden", "unknown input '{}'", name);
  }
}

}  // namespace tessera::golden
