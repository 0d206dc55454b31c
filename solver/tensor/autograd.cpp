#include "solver/tensor/autograd.hpp"

#include <algorithm>
#include <limits>

#include "solver/tensor/node.hpp"

namespace tessera {
namespace {

thread_local bool t_recording = true;
thread_local std::uint64_t t_sequence = 0;

AutogradMeta& meta_of(const Tensor& t) {
  if (!t.impl().autograd) t.impl().autograd = std::make_shared<AutogradMeta>();
  return *t.impl().autograd;
}

OutputMeta output_meta(const Tensor& t) {
  return {t.shape(), t.dtype(), t.layout(), {}};
}

}  // namespace

NoGrad::NoGrad() : outer_(t_recording) {
  t_recording = false;
}
NoGrad::~NoGrad() {
  t_recording = outer_;
}
EnableGrad::EnableGrad() : outer_(t_recording) {
  t_recording = true;
}
EnableGrad::~EnableGrad() {
  t_recording = outer_;
}
bool grad_enabled() {
  return t_recording;
}

bool any_requires_grad(std::span<const Tensor> inputs) {
  return t_recording &&
         std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t && t.requires_grad(); });
}

bool any_requires_grad(std::initializer_list<Tensor> inputs) {
  return any_requires_grad(std::span<const Tensor>(inputs.begin(), inputs.size()));
}

Edge edge_of(const Tensor& t) {
  if (!t || !t.requires_grad()) return {};
  AutogradMeta& meta = meta_of(t);
  if (meta.grad_fn) return {meta.grad_fn, meta.output};
  if (!meta.accumulator) {
    meta.accumulator = std::make_shared<Node>();
    meta.accumulator->op = "accumulate";
    meta.accumulator->is_leaf = true;
    // Leaves come first: a gradient is handed on (and its reduction started) as soon as it is complete.
    meta.accumulator->sequence = std::numeric_limits<std::uint64_t>::max();
    meta.accumulator->outputs.push_back(output_meta(t));
    meta.accumulator->leaf = t.weak();
  }
  return {meta.accumulator, 0};
}

void record_multi(const char* op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                  BackwardMulti backward) {
  if (!any_requires_grad(inputs)) return;
  auto node = std::make_shared<Node>();
  node->op = op;
  node->sequence = t_sequence++;
  node->backward = std::move(backward);
  for (const Tensor& input : inputs) node->inputs.push_back(edge_of(input));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    node->outputs.push_back(output_meta(outputs[i]));
    outputs[i] =
        outputs[i].detach();  // an operator may return a view of its input; history belongs to the handle
    AutogradMeta& meta = meta_of(outputs[i]);
    meta.requires_grad = true;
    meta.grad_fn = node;
    meta.output = static_cast<int>(i);
  }
}

void record(const char* op, std::span<const Tensor> inputs, Tensor& output, Backward backward) {
  if (!any_requires_grad(inputs)) return;
  record_multi(op, inputs, {&output, 1}, [backward = std::move(backward)](std::span<const Tensor> grads) {
    return backward(grads[0]);
  });
}

void record(const char* op, std::initializer_list<Tensor> inputs, Tensor& output, Backward backward) {
  record(op, std::span<const Tensor>(inputs.begin(), inputs.size()), output, std::move(backward));
}

bool Tensor::requires_grad() const {
  return impl_->autograd && impl_->autograd->requires_grad;
}

const Tensor& Tensor::set_requires_grad(bool value) const {
  require(is_leaf(), "set_requires_grad", "found the result of '{}', expected a leaf",
          impl_->autograd ? impl_->autograd->grad_fn->op : "");
  require(!value || is_floating(dtype()), "set_requires_grad",
          "found element type {}, expected a floating one", name_of(dtype()));
  meta_of(*this).requires_grad = value;
  return *this;
}

bool Tensor::is_leaf() const {
  return !impl_->autograd || !impl_->autograd->grad_fn;
}
Tensor Tensor::grad() const {
  return impl_->autograd ? impl_->autograd->grad : Tensor();
}
void Tensor::set_grad(Tensor grad) const {
  meta_of(*this).grad = std::move(grad);
}

void Tensor::retain_grad() const {
  if (is_leaf()) return;
  const std::weak_ptr<Impl> self = impl_;
  register_hook([self](const Tensor& grad) {
    if (const auto impl = self.lock()) impl->autograd->grad = grad;
    return Tensor();
  });
}

void Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  const Edge edge = edge_of(*this);
  require(edge.node != nullptr, "register_hook", "the tensor does not require a gradient");
  edge.node->outputs[static_cast<std::size_t>(edge.output)].hooks.push_back(std::move(hook));
}

void Tensor::register_post_accumulate_hook(std::function<void()> hook) const {
  require(is_leaf(), "register_post_accumulate_hook", "expected a leaf");
  meta_of(*this).post_hooks.push_back(std::move(hook));
}

void Tensor::defer_domain_sum(const Mesh& domain) const {
  require(is_leaf() && !is_shard(), "defer_domain_sum", "found {}, expected a plain leaf", describe(*this));
  meta_of(*this).defer_domain_sum = domain;
}

void Tensor::backward(Tensor cotangent) const {
  tessera::backward({this, 1}, {&cotangent, 1});
}

Layout contribution_layout(const Layout& like, const Shape& weight_shape) {
  if (!like) return {};
  Placements placements;
  for (const Placement& p : like.placements()) placements.push_back(p.is_shard() ? Partial() : Replicate());
  return Layout(like.mesh(), placements, weight_shape, {});
}

Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& body,
                  std::span<const Tensor> inputs) {
  Tensor output;
  {
    const NoGrad no_grad;
    output = body(inputs);
  }
  if (!grad_enabled()) return output;
  // Parameters inside may need gradients although no input does, so the node is recorded through a stand-in
  // input.
  std::vector<Tensor> recorded(inputs.begin(), inputs.end());
  recorded.push_back(Tensor::zeros(Shape{}).set_requires_grad());
  std::vector<Tensor> kept(inputs.begin(), inputs.end());
  record("checkpoint", std::span<const Tensor>(recorded), output, [body, kept](const Tensor& grad) {
    const EnableGrad enable;
    std::vector<Tensor> fresh;
    for (const Tensor& t : kept) {
      fresh.push_back(t ? t.detach() : t);
      if (t && t.requires_grad()) fresh.back().set_requires_grad();
    }
    const Tensor again = body(fresh);
    if (again.requires_grad()) again.backward(grad);
    Gradients result;
    for (const Tensor& t : fresh) result.push_back(t && t.requires_grad() ? t.grad() : Tensor());
    result.emplace_back();
    return result;
  });
  return output;
}

}  // namespace tessera
