// Activation recomputation.
#include "parallel/comm_stats.hpp"
#include "solver/tensor/node.hpp"

namespace tessera {

Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& body,
                  std::span<const Tensor> inputs) {
  std::vector<Tensor> kept;
  for (const Tensor& t : inputs) kept.push_back(t ? t.detach() : t);
  Tensor output;
  std::vector<Tensor> ends(inputs.begin(), inputs.end());
  {
    const UseCollector collector;
    const NoGrad no_grad;
    output = body(kept);
    UseCollector::note({&output, 1});
    ends.insert(ends.end(), collector.used().begin(), collector.used().end());
  }
  // Beside the inputs, what the body takes from outside (its parameters) are inputs of the node, so that
  // their gradients join those from elsewhere.
  std::vector<Tensor> outside;
  for (std::size_t i = inputs.size(); i < ends.size(); ++i) outside.push_back(ends[i].detach());
  const std::span<const Tensor> recorded(ends);
  record("checkpoint", recorded, output, [body, kept, ends, outside](const Tensor& grad) {
    for (const Tensor& t : outside) check_unmodified(t);
    for (const Tensor& t : kept)
      if (t) check_unmodified(t);
    std::vector<Tensor> stops = ends, fresh;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      fresh.push_back(kept[i] ? kept[i].detach() : Tensor());
      if (ends[i] && ends[i].requires_grad()) fresh.back().set_requires_grad();
      stops[i] = fresh.back();
    }
    const BackwardScope forward(nullptr);
    const CommScope own_names = CommScope::in_place("");
    const std::uint64_t start = next_sequence();
    const Tensor again = [&] {
      const EnableGrad enable;
      return body(fresh);
    }();
    return again.requires_grad() ? gradients_at(again, grad, stops, start) : Gradients(stops.size());
  });
  return output;
}

}  // namespace tessera
