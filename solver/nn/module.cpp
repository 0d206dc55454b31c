#include "solver/nn/module.hpp"

#include "solver/tensor/random.hpp"

namespace tessera {

Tensor Module::parameter(std::string name, const Shape& shape, Init init, DType type) {
  return add_own(std::move(name), Tensor::zeros(shape, type), init);
}

Tensor Module::parameter(std::string name, const Layout& layout, Init init, DType type) {
  return add_own(std::move(name), Tensor::zeros(layout, type), init);
}

Tensor Module::add_own(std::string name, const Tensor& tensor, Init init) {
  tensor.set_requires_grad();
  own_.push_back({{std::move(name), tensor}, init});
  return tensor;
}

void Module::collect(const std::string& prefix, std::vector<Own>& out) const {
  for (const Own& own : own_) out.push_back({{prefix + own.named.name, own.named.tensor}, own.init});
  for (const auto& [name, child] : children_)
    child->collect(name.empty() ? prefix : prefix + name + ".", out);
}

std::vector<NamedTensor> Module::parameters() const {
  std::vector<Own> all;
  collect("", all);
  std::vector<NamedTensor> result;
  for (Own& own : all) result.push_back(std::move(own.named));
  return result;
}

Index Module::parameter_count() const {
  Index n = 0;
  for (const NamedTensor& p : parameters()) n += count(p.tensor.shape());
  return n;
}

void Module::initialise(std::uint64_t seed) const {
  std::vector<Own> all;
  collect("", all);
  for (const Own& own : all) {
    const CounterRandom random(seed, stream_of(own.named.name));
    switch (own.init.kind) {
      case Init::Kind::uniform:
        fill_uniform(own.named.tensor, random, -own.init.scale, own.init.scale);
        break;
      case Init::Kind::normal:
        fill_normal(own.named.tensor, random, 0.0, own.init.scale);
        break;
      case Init::Kind::constant:
        own.named.tensor.copy_from(
            Tensor::full(own.named.tensor.shape(), own.init.scale, own.named.tensor.dtype()));
    }
  }
}

}  // namespace tessera
