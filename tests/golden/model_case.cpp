#include "tests/golden/model_case.hpp"

#include <functional>

#include "solver/ops/shape/shape.hpp"

namespace tessera::golden {
namespace {

using Json = nlohmann::json;
using Setters = std::map<std::string, std::function<void(const Json&)>>;

/// Hands every key of an object to its setter.
void read_keys(const Json& object, const std::string& where, const Setters& setters) {
  for (const auto& [key, value] : object.items()) {
    const auto setter = setters.find(key);
    if (setter == setters.end()) fail(ExitCode::input_file, where, "unknown key '{}'", key);
    try {
      setter->second(value);
    } catch (const Json::exception& error) {
      fail(ExitCode::input_file, where, "key '{}': {}", key, error.what());
    }
  }
}

template <typename T>
T choice(const Json& value, const std::string& where, const std::map<std::string, T>& choices) {
  const auto found = choices.find(value.get<std::string>());
  if (found == choices.end()) fail(ExitCode::input_file, where, "unknown value {}", value.dump());
  return found->second;
}

ModelConfig read_config(const Json& json, const std::string& where) {
  ModelConfig config;
  Json patch;
  read_keys(json, where,
            {{"type",
              [&](const Json& v) {
                config.architecture = choice<Architecture>(v, where,
                                                           {{"vit", Architecture::vit},
                                                            {"convnet", Architecture::convnet},
                                                            {"natten", Architecture::natten}});
              }},
             {"head",
              [&](const Json& v) {
                config.head = choice<Head>(
                    v, where, {{"field", Head::field}, {"classification", Head::classification}});
              }},
             {"grid",
              [&](const Json& v) {
                for (const Json& n : v) config.grid.push_back(n.get<Index>());
              }},
             {"patch", [&](const Json& v) { patch = v; }},
             {"in_channels", [&](const Json& v) { config.in_channels = v.get<Index>(); }},
             {"out_channels", [&](const Json& v) { config.out_channels = v.get<Index>(); }},
             {"dim", [&](const Json& v) { config.dim = v.get<Index>(); }},
             {"depth", [&](const Json& v) { config.depth = v.get<Index>(); }},
             {"heads", [&](const Json& v) { config.heads = v.get<Index>(); }},
             {"mlp_ratio", [&](const Json& v) { config.mlp_ratio = v.get<double>(); }},
             {"kernel_size", [&](const Json& v) { config.kernel_size = v.get<Index>(); }},
             {"num_classes", [&](const Json& v) { config.num_classes = v.get<Index>(); }}});
  for (int a = 0; a < config.grid.size(); ++a) {
    const auto axis = static_cast<std::size_t>(a);
    config.patch.push_back((patch.is_array() ? patch.at(axis) : patch).get<Index>());
  }
  return config;
}

OptimizerOptions read_optimizer(const Json& json, const std::string& where) {
  OptimizerOptions options;
  options.momentum = 0;
  read_keys(
      json, where,
      {{"type",
        [&](const Json& v) {
          options.kind = choice<OptimizerKind>(
              v, where,
              {{"sgd", OptimizerKind::sgd}, {"adam", OptimizerKind::adam}, {"adamw", OptimizerKind::adamw}});
        }},
       {"lr", [&](const Json& v) { options.lr = v.get<double>(); }},
       {"weight_decay", [&](const Json& v) { options.weight_decay = v.get<double>(); }},
       {"momentum", [&](const Json& v) { options.momentum = v.get<double>(); }},
       {"nesterov", [&](const Json& v) { options.nesterov = v.get<bool>(); }},
       {"betas",
        [&](const Json& v) {
          options.beta1 = v.at(0).get<double>();
          options.beta2 = v.at(1).get<double>();
        }},
       {"eps", [&](const Json& v) { options.eps = v.get<double>(); }}});
  return options;
}

void expect_steps(const ModelCase& c, const Array& array, const char* what) {
  const Shape& shape = array.shape;
  if (shape.size() < 2 || shape[0] < c.steps || shape[1] != c.global_batch) {
    fail(ExitCode::input_file, c.name, "{}: found shape {}, expected ({}, {}, ...)", what, to_string(shape),
         c.steps, c.global_batch);
  }
}

}  // namespace

Tensor ModelCase::sample(const Array& from, Index s, Index b, DType type) {
  Shape shape(from.shape.begin() + 1, from.shape.end());  // (1, C, *grid)
  shape[0] = 1;
  const Index first = (s * from.shape[1] + b) * count(shape);
  const auto begin = from.values.begin() + first;
  const Tensor t = Array{shape, from.integer, {begin, begin + count(shape)}}.tensor(type);
  if (shape.size() < 3) return t;
  std::vector<int> dims{0};
  for (int d = 2; d < shape.size(); ++d) dims.push_back(d);
  dims.push_back(1);
  return permute(t, dims);
}

ModelCase read_model_case(const hdf5::Group& models, const std::string& name) {
  const hdf5::Group group = models.group(name);
  ModelCase c;
  c.name = name;
  c.config = read_config(json_attribute(group, "config"), group.where() + ": config");
  c.optimizer = read_optimizer(json_attribute(group, "optimizer"), group.where() + ": optimizer");
  c.loss = text_attribute(group, "loss");
  c.clip_grad_norm = number_attribute(group, "clip_grad_norm");
  c.steps = static_cast<Index>(number_attribute(group, "steps"));
  c.global_batch = static_cast<Index>(number_attribute(group, "global_batch"));
  c.params = read_arrays(group, "params");
  c.inputs = read_array(group, "inputs");
  c.targets = read_array(group, "targets");
  c.output0 = read_array(group, "output0");
  c.grads0 = read_arrays(group, "grads0");
  c.losses = read_array(group, "losses");
  c.grad_norms = read_array(group, "grad_norms");
  c.params_final = read_arrays(group, "params_final");
  expect_steps(c, c.inputs, "inputs");
  expect_steps(c, c.targets, "targets");
  return c;
}

}  // namespace tessera::golden
