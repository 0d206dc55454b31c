#include "solver/tensor/autograd.hpp"

#include <algorithm>
#include <limits>

#include "parallel/comm_stats.hpp"
#include "solver/tensor/node.hpp"

namespace tessera {
namespace {

thread_local bool t_recording = true;
thread_local std::uint64_t t_sequence = 0;
thread_local UseCollector* t_collector = nullptr;

AutogradMeta& meta_of(const Tensor& t) {
  if (!t.impl().autograd) t.impl().autograd = std::make_shared<AutogradMeta>();
  return *t.impl().autograd;
}

OutputMeta output_meta(const Tensor& t) {
  return {t.shape(), t.dtype(), t.layout(), {}};
}

/// True if some input is a gradient, or was computed from one.
bool is_derived(std::span<const Tensor> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) {
    return t && t.impl().autograd && !t.impl().autograd->gradient_of.empty();
  });
}

/// Remembers that outputs without history come from a gradient, so that a backward pass from them is refused
/// for what it is.
void mark_derived(const char* op, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  if (!t_recording || !is_derived(inputs)) return;
  for (Tensor& output : outputs) {
    output = output.detach();
    meta_of(output).gradient_of = op;
  }
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

UseCollector::UseCollector() : outer_(t_collector), start_(t_sequence) {
  t_collector = this;
}
UseCollector::~UseCollector() {
  t_collector = outer_;
}

void UseCollector::note(std::span<const Tensor> inputs) {
  if (!t_collector) return;
  std::vector<Tensor>& used = t_collector->used_;
  for (const Tensor& t : inputs) {
    if (!t || !t.requires_grad()) continue;
    const Edge edge = edge_of(t);
    const bool inner = !edge.node->is_leaf && edge.node->sequence >= t_collector->start_;
    const bool known = std::any_of(used.begin(), used.end(), [&](const Tensor& u) {
      const Edge other = edge_of(u);
      return other.node == edge.node && other.output == edge.output;
    });
    if (!inner && !known) used.push_back(t);
  }
}

std::uint64_t next_sequence() {
  return t_sequence;
}

Tensor as_gradient(const Tensor& t) {
  Tensor marked = t.detach();
  meta_of(marked).gradient_of = "gradients";
  return marked;
}

bool any_requires_grad(std::span<const Tensor> inputs) {
  UseCollector::note(inputs);
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
  if (!any_requires_grad(inputs)) return mark_derived(op, inputs, outputs);
  auto node = std::make_shared<Node>();
  node->op = op;
  node->caused_by = CommScope::current().empty() ? op : CommScope::current();
  node->reads_gradient = is_derived(inputs);
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
  record_multi(op, inputs, {&output, 1}, [backward = std::move(backward)](std::span<const Tensor> grads) {
    return backward(grads[0]);
  });
}

void record(const char* op, std::initializer_list<Tensor> inputs, Tensor& output, Backward backward) {
  record(op, std::span<const Tensor>(inputs.begin(), inputs.size()), output, std::move(backward));
}

void record_identity(const char* op, const Tensor& input, Tensor& output) {
  record(op, {input}, output, [](const Tensor& grad) { return Gradients{grad}; });
  if (output.requires_grad()) output.impl().autograd->grad_fn->is_identity = true;
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
  if (!impl_->autograd) return {};
  AutogradMeta& meta = *impl_->autograd;
  // An operator's contribution lies there already, which counts once it is accumulated.
  if (meta.grad_is_lent && is_accumulating()) return as_gradient(Tensor::zeros_like(meta.grad));
  if (meta.grad_is_stale) meta.grad.zero();
  meta.grad_is_stale = meta.grad_is_lent = false;
  return meta.grad;
}
void Tensor::set_grad(Tensor grad) const {
  AutogradMeta& meta = meta_of(*this);
  meta.grad = grad ? as_gradient(grad) : grad;
  meta.grad_is_stale = meta.grad_is_lent = false;
}
void Tensor::forget_grad() const {
  require(!accumulates_into_leaves(), "forget_grad", "found a backward pass under way, expected none");
  AutogradMeta& meta = meta_of(*this);
  meta.grad_is_stale = meta.grad.defined();
  meta.grad_is_lent = false;
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

Tensor contribution_storage(const Tensor& parameter, const Layout& layout, DType type) {
  const auto own = [&] { return Tensor::empty(layout, parameter.shape(), type); };
  if (!accumulates_into_leaves() || !parameter.is_leaf() || parameter.is_shard()) return own();
  AutogradMeta& meta = meta_of(parameter);
  const bool observed = meta.accumulator && !meta.accumulator->outputs[0].hooks.empty();
  if (!meta.grad_is_stale || meta.grad_is_lent || observed || meta.grad.dtype() != type) return own();
  meta.grad_is_lent = true;
  const Tensor storage = meta.grad.detach();
  storage.impl().seen = *storage.impl().version;  // what it held before does not matter
  return layout ? storage.with_layout(layout) : storage;
}

Layout contribution_layout(const Layout& like, const Shape& weight_shape) {
  if (!like) return {};
  Placements placements;
  for (const Placement& p : like.placements()) placements.push_back(p.is_shard() ? Partial() : Replicate());
  return Layout(like.mesh(), placements, weight_shape, {});
}

}  // namespace tessera
