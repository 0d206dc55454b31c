#include "solver/train/rollout.hpp"

#include "solver/tensor/autograd.hpp"

namespace tessera {

std::vector<float> Rollout::next() {
  const NoGrad no_grad;
  const Index step = first_ + static_cast<Index>(states_.size());
  const Sample sample = maker_.to_sample(maker_.read(trajectory_, step, false, first_, states_));
  states_.push_back(surrogate_(sample).to_host<float>());
  const auto reach = static_cast<std::size_t>(maker_.spec().longest_lag());
  if (states_.size() > reach) std::vector<float>().swap(states_[states_.size() - 1 - reach]);
  std::vector<float> values = states_.back();
  const Normalisation& n = maker_.normalisation();
  const std::size_t fields = n.mean.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t f = i % fields;
    values[i] = static_cast<float>(static_cast<double>(values[i]) * n.scale(f) + n.mean[f]);
  }
  return values;
}

}  // namespace tessera
