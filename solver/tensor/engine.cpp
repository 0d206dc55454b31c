// The backward pass: runs the recorded graph in reverse order of recording.
#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "solver/tensor/node.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

/// Gradients collected for one node's outputs before it runs.
struct Inbox {
  std::vector<Tensor> grads;
  std::vector<bool> owned;  ///< nobody else holds the tensor, so it may be added to in place
  int missing = 0;          ///< contributions still to come
};

using NodePtr = std::shared_ptr<Node>;

struct LaterFirst {
  bool operator()(const NodePtr& a, const NodePtr& b) const { return a->sequence < b->sequence; }
};

/// Gradients asked for by gradients(): captured where they arrive instead of accumulated into leaves.
using Captures = std::unordered_map<const Node*, std::vector<std::pair<int, Tensor*>>>;

class Engine {
 public:
  explicit Engine(const Captures* captures) : captures_(captures) {}

  void run(std::span<const Tensor> outputs, std::span<const Tensor> cotangents) {
    const NoGrad no_grad;
    std::vector<Edge> roots;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Edge root = edge_of(outputs[i]);
      require(root.node != nullptr, "backward", "the output does not require a gradient");
      roots.push_back(root);
      count_dependencies(root.node);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      deliver(roots[i], start_cotangent(outputs[i], cotangents[i]), false);
    }
    // A root may also be an input of another root: it waits for those contributions.
    for (const Edge& root : roots) {
      if (inboxes_[root.node.get()].missing == 0 && queued_.insert(root.node.get()).second)
        ready_.push(root.node);
    }
    while (!ready_.empty()) {
      const NodePtr node = ready_.top();
      ready_.pop();
      step(*node);
    }
  }

 private:
  static Tensor start_cotangent(const Tensor& output, const Tensor& cotangent) {
    if (cotangent) {
      require(cotangent.local_count() == output.local_count(), "backward",
              "cotangent {} does not fit output {}", describe(cotangent), describe(output));
      return output.is_shard() && !cotangent.is_shard() ? cotangent.with_layout(output.layout().reduced())
                                                        : cotangent;
    }
    require(count(output.shape()) == 1, "backward", "found shape {}, expected a scalar or a cotangent",
            to_string(output.shape()));
    Tensor one = Tensor::full(output.local_shape(), 1.0, output.dtype());
    return output.is_shard() ? one.with_layout(output.layout().reduced()) : one;
  }

  void count_dependencies(const NodePtr& root) {
    std::vector<Node*> stack{root.get()};
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      if (!visited_.insert(node).second) continue;
      inboxes_[node].grads.resize(node->outputs.size());
      inboxes_[node].owned.resize(node->outputs.size());
      for (const Edge& edge : node->inputs) {
        if (!edge.node) continue;
        ++inboxes_[edge.node.get()].missing;
        stack.push_back(edge.node.get());
      }
    }
  }

  void deliver(const Edge& edge, const Tensor& grad, bool owned) {
    if (!grad) return;
    Inbox& inbox = inboxes_[edge.node.get()];
    Tensor& slot = inbox.grads[static_cast<std::size_t>(edge.output)];
    const auto o = static_cast<std::size_t>(edge.output);
    if (!slot) {
      slot = grad;
      inbox.owned[o] = owned;
      return;
    }
    if (!(slot.layout() == grad.layout()) && defers_sum(*edge.node)) {
      const Mesh mesh = (slot.is_shard() ? slot : grad).layout().mesh();
      slot = accumulate(addends_on(mesh, slot), addends_on(mesh, grad), false);
    } else if (!(slot.layout() == grad.layout())) {
      const Layout& like = edge.node->outputs[o].layout;
      slot = accumulate(resolve_gradient(slot, like), resolve_gradient(grad, like), false);
    } else {
      slot = accumulate(slot, grad, inbox.owned[o]);
    }
    inbox.owned[o] = true;
  }

  /// True if `node` accumulates into a plain leaf whose sum over the mesh somebody else takes.
  bool defers_sum(const Node& node) const {
    if (!node.is_leaf || captures_) return false;
    const auto impl = node.leaf.lock();
    return impl && impl->autograd->defer_domain_sum && !impl->layout;
  }

  void step(Node& node) {
    Inbox inbox = std::move(inboxes_[&node]);
    if (node.is_leaf) return accumulate_leaf(node, inbox.grads[0]);
    for (std::size_t i = 0; i < inbox.grads.size(); ++i)
      inbox.grads[i] = finish_gradient(node, i, inbox.grads[i]);
    capture(node, inbox.grads);
    const bool any =
        std::any_of(inbox.grads.begin(), inbox.grads.end(), [](const Tensor& t) { return t.defined(); });
    Gradients grads(node.inputs.size());
    if (any) {
      require(static_cast<bool>(node.backward), "backward",
              "the history of '{}' has been used up by an earlier backward", node.op);
      grads = node.backward(inbox.grads);
      require(grads.size() == node.inputs.size(), node.op.c_str(), "backward gave {} gradients for {} inputs",
              grads.size(), node.inputs.size());
      node.backward = nullptr;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge& edge = node.inputs[i];
      if (!edge.node) continue;
      deliver(edge, grads[i], false);
      if (--inboxes_[edge.node.get()].missing == 0 && queued_.insert(edge.node.get()).second)
        ready_.push(edge.node);
    }
  }

  /// The complete gradient of output i of a node, laid out as that output, after its hooks.
  static Tensor finish_gradient(Node& node, std::size_t i, Tensor grad) {
    if (!grad) return grad;
    grad = resolve_gradient(grad, node.outputs[i].layout);
    for (const auto& hook : node.outputs[i].hooks) {
      if (Tensor replaced = hook(grad)) grad = replaced;
    }
    return grad;
  }

  void capture(const Node& node, std::span<const Tensor> grads) {
    if (!captures_) return;
    const auto found = captures_->find(&node);
    if (found == captures_->end()) return;
    for (const auto& [output, slot] : found->second) *slot = grads[static_cast<std::size_t>(output)];
  }

  void accumulate_leaf(Node& node, Tensor grad) {
    const auto impl = node.leaf.lock();
    if (!grad || !impl) return;
    const Tensor leaf(impl);
    AutogradMeta& meta = *impl->autograd;
    if (defers_sum(node)) {
      grad = addend_of(grad, *meta.defer_domain_sum);
      for (const auto& hook : node.outputs[0].hooks) {
        if (Tensor replaced = hook(grad)) grad = replaced;
      }
    } else {
      grad = finish_gradient(node, 0, grad);
    }
    if (captures_) {
      capture(node, {&grad, 1});
      return;
    }
    if (!meta.grad) {
      meta.grad = grad.clone();
    } else {
      accumulate(meta.grad, grad, true);
    }
    for (const auto& hook : meta.post_hooks) hook();
  }

  const Captures* captures_;
  std::unordered_map<const Node*, Inbox> inboxes_;
  std::unordered_set<const Node*> visited_, queued_;
  std::priority_queue<NodePtr, std::vector<NodePtr>, LaterFirst> ready_;
};

/// The outputs with averages and extremes reduced: a cotangent is that of the value, and what reaches each
/// rank's addend differs from it (for sums it does not).
std::vector<Tensor> values_of(std::span<const Tensor> outputs) {
  const EnableGrad recording;
  std::vector<Tensor> values;
  for (const Tensor& output : outputs) {
    Layout layout = output.layout();
    for (int a = 0; layout && a < layout.mesh().axes(); ++a) {
      const Placement& p = layout.placement(a);
      if (p.is_partial() && p.op != ReduceOp::sum) layout = layout.with_placement(a, Replicate());
    }
    values.push_back(output.is_shard() ? redistribute(output, layout) : output);
  }
  return values;
}

}  // namespace

void backward(std::span<const Tensor> outputs, std::span<const Tensor> cotangents) {
  require(outputs.size() == cotangents.size(), "backward", "{} outputs and {} cotangents", outputs.size(),
          cotangents.size());
  Engine(nullptr).run(values_of(outputs), cotangents);
}

Gradients gradients(const Tensor& output, std::span<const Tensor> inputs, Tensor cotangent) {
  Gradients result(inputs.size());
  Captures captures;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Edge edge = edge_of(inputs[i]);
    require(edge.node != nullptr, "gradients", "input {} does not require a gradient", i);
    captures[edge.node.get()].emplace_back(edge.output, &result[i]);
  }
  Engine(&captures).run(values_of({&output, 1}), {&cotangent, 1});
  return result;
}

}  // namespace tessera
