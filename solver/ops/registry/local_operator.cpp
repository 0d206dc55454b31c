#include "solver/ops/registry/local_operator.hpp"

namespace tessera {

Tensor apply_locally(const OperatorCall& call, const Shape& shape, const LocalForward& forward,
                     LocalBackward backward) {
  std::vector<Tensor> parts;
  std::vector<Layout> layouts;
  for (int i = 0; i < static_cast<int>(call.operands().size()); ++i) {
    parts.push_back(call[i] ? call[i].detach().as_plain() : Tensor());
    layouts.push_back(call[i] ? call.gradient_layout(i) : Layout());
  }
  Tensor y = call.empty_result(shape, call[0].dtype());
  forward(parts, y.detach().as_plain());
  record(
      call.name(), call.operands(), y,
      [parts, layouts, result = y.detach().as_plain(), backward = std::move(backward)](const Tensor& grad) {
        Gradients grads = backward(parts, result, grad.as_plain());
        grads.resize(parts.size());
        for (std::size_t i = 0; i < grads.size(); ++i) {
          if (grads[i] && layouts[i]) grads[i] = grads[i].with_layout(layouts[i]);
        }
        return grads;
      });
  return y;
}

}  // namespace tessera
