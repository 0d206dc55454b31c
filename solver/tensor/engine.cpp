// The backward pass: runs the recorded graph in reverse order of recording.
#include <algorithm>
#include <queue>
#include <unordered_map>

#include "parallel/comm_stats.hpp"
#include "solver/tensor/node.hpp"
#include "solver/tensor/operator_clock.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

using NodePtr = std::shared_ptr<Node>;

struct LaterFirst {
  bool operator()(const NodePtr& a, const NodePtr& b) const { return a->sequence < b->sequence; }
};

/// What a pass is for.
struct Goal {
  enum class Kind : std::uint8_t {
    accumulate,  ///< into leaves
    capture,     ///< gradients of chosen tensors, complete; leaves accumulate nothing
    end,         ///< the same, as they arrive, and the graph ends there
  };
  using Slots = std::unordered_map<const Node*, std::vector<std::pair<int, Tensor*>>>;

  Kind kind = Kind::accumulate;
  Slots slots = {};
  std::uint64_t start = 0;  ///< number of the first node that does not have to be an end

  bool is_chosen(const Node* node) const { return slots.count(node) > 0; }
  bool ends_at(const Node* node) const { return kind == Kind::end && is_chosen(node); }
};

thread_local bool t_accumulates = false;
thread_local int t_accumulating = 0;  // passes under way that do

/// Says for as long as it lives whether leaves are accumulated into.
class AccumulateScope {
 public:
  explicit AccumulateScope(bool accumulates) : outer_(t_accumulates), own_(accumulates) {
    t_accumulates = accumulates;
    t_accumulating += own_;
  }
  ~AccumulateScope() {
    t_accumulates = outer_;
    t_accumulating -= own_;
  }
  AccumulateScope(const AccumulateScope&) = delete;
  AccumulateScope& operator=(const AccumulateScope&) = delete;

 private:
  bool outer_;
  int own_;
};

bool shares_storage(const Tensor& a, const Tensor& b) {
  return a.impl().data == b.impl().data;
}

class Engine {
 public:
  explicit Engine(Goal goal) : goal_(std::move(goal)) {}

  void run(std::span<const Tensor> outputs, std::span<const Tensor> cotangents) {
    const NoGrad no_grad;
    const AccumulateScope accumulates(goal_.kind == Goal::Kind::accumulate);
    std::vector<Edge> roots;
    std::vector<Tensor> starts;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      roots.push_back(root_of(outputs[i]));
      starts.push_back(start_cotangent(outputs[i], cotangents[i]));
    }
    explore(roots);
    for (std::size_t i = 0; i < roots.size(); ++i) deliver(roots[i], starts[i], "");
    // A root may also be an input of another root: it waits for those contributions.
    for (const Edge& root : roots) enqueue_if_complete(root.node);
    while (!ready_.empty()) {
      const NodePtr node = ready_.top();
      ready_.pop();
      step(*node);
    }
  }

 private:
  /// Of one node that takes part.
  struct State {
    std::vector<GradientSum> inbox;  ///< by output
    int missing = 0;                 ///< contributions still to come
    bool needed = false;
    bool queued = false;
  };

  static Edge root_of(const Tensor& output) {
    const Edge root = edge_of(output);
    if (!root.node && output && output.impl().autograd) {
      const std::string& op = output.impl().autograd->gradient_of;
      if (!op.empty()) refuse_second_order(op);
    }
    require(root.node != nullptr, "backward", "the output does not require a gradient");
    return root;
  }

  [[noreturn]] static void refuse_second_order(const std::string& op) {
    fail(ExitCode::usage, "backward",
         "gradients of gradients are not supported: '{}' reads a gradient; detach() it to make it a constant",
         op);
  }

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

  /// Finds the nodes that lead from the roots to where gradients are wanted, and checks that they can run,
  /// before any of them does.
  void explore(const std::vector<Edge>& roots) {
    std::vector<Node*> found, stack;
    const auto visit = [&](Node* node) {
      if (!states_.emplace(node, State()).second) return;
      check(*node);
      found.push_back(node);
      stack.push_back(node);
    };
    for (const Edge& root : roots) {
      visit(root.node.get());
      while (!stack.empty()) {
        const Node* node = stack.back();
        stack.pop_back();
        if (goal_.ends_at(node)) continue;
        for (const Edge& edge : node->inputs)
          if (edge.node) visit(edge.node.get());
      }
    }
    // Inputs were recorded before what uses them.
    std::sort(found.begin(), found.end(), [](const Node* a, const Node* b) {
      return a->is_leaf != b->is_leaf ? a->is_leaf : a->sequence < b->sequence;
    });
    for (Node* node : found) plan(*node);
  }

  void check(const Node& node) const {
    if (node.reads_gradient) refuse_second_order(node.op);
    if (goal_.kind != Goal::Kind::end || goal_.is_chosen(&node)) return;
    require(!node.is_leaf && node.sequence >= goal_.start, "checkpoint",
            "the second run of the body uses a {} that the first one did not",
            node.is_leaf ? "parameter" : "result of '" + node.op + "'");
  }

  void plan(const Node& node) {
    State& state = states_[&node];
    state.inbox.resize(node.outputs.size());
    state.needed = goal_.is_chosen(&node) || (node.is_leaf && goal_.kind == Goal::Kind::accumulate);
    if (goal_.ends_at(&node)) return;
    bool runs = false;
    for (const Edge& edge : node.inputs) {
      if (!is_needed(edge)) continue;
      runs = state.needed = true;
      ++states_[edge.node.get()].missing;
    }
    if (runs && !node.backward) {
      fail(ExitCode::usage, "backward",
           "the history of '{}' has been used up by an earlier backward pass: run the forward pass again, or "
           "differentiate the sum of what is asked for",
           node.op);
    }
  }

  bool is_needed(const Edge& edge) const {
    if (!edge.node) return false;
    const auto found = states_.find(edge.node.get());
    return found != states_.end() && found->second.needed;
  }

  void deliver(const Edge& edge, const Tensor& grad, std::string_view op) {
    if (grad) states_[edge.node.get()].inbox[static_cast<std::size_t>(edge.output)].add(grad, op);
  }

  void enqueue_if_complete(const NodePtr& node) {
    State& state = states_[node.get()];
    if (state.missing > 0 || !state.needed || state.queued) return;
    state.queued = true;
    ready_.push(node);
  }

  void step(Node& node) {
    std::vector<GradientSum> inbox = std::move(states_[&node].inbox);
    if (goal_.ends_at(&node)) {
      return capture(node, [&](std::size_t i) {
        const CommScope scope = booked_on(inbox[i]);
        return inbox[i].combined(node.outputs[i].layout);
      });
    }
    if (node.is_leaf && goal_.kind == Goal::Kind::accumulate) return accumulate_leaf(node, inbox[0]);
    if (node.is_identity && is_unobserved(node)) {
      for (const GradientSum::Term& term : inbox[0].terms()) deliver(node.inputs[0], term.sum, inbox[0].op());
      node.backward = nullptr;
      return hand_on(node, Gradients(1));
    }
    Gradients gradients;
    if (passes_addends(node, inbox)) {
      gradients = run_on_addends(node, inbox);
    } else {
      std::vector<Tensor> grads;
      for (std::size_t i = 0; i < inbox.size(); ++i) {
        const CommScope scope = booked_on(inbox[i]);
        grads.push_back(finished(node.outputs[i], inbox[i].resolved(node.outputs[i].layout)));
      }
      inbox.clear();  // frees what had another layout
      capture(node, [&](std::size_t i) { return grads[i] ? as_gradient(grads[i]) : Tensor(); });
      gradients = run_backward(node, grads);
    }
    hand_on(node, gradients);
  }

  void hand_on(const Node& node, const Gradients& gradients) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge& edge = node.inputs[i];
      if (!is_needed(edge)) continue;
      deliver(edge, gradients[i], node.caused_by);
      --states_[edge.node.get()].missing;
      enqueue_if_complete(edge.node);
    }
  }

  /// True if nobody asks for the gradients of the node's outputs.
  bool is_unobserved(const Node& node) const {
    return !goal_.is_chosen(&node) && std::all_of(node.outputs.begin(), node.outputs.end(),
                                                  [](const OutputMeta& o) { return o.hooks.empty(); });
  }

  /// The operator that caused a gradient answers for its reduction.
  static CommScope booked_on(const GradientSum& sum) { return CommScope::in_place(backward_name(sum.op())); }

  /// The gradients of the inputs; none where no gradient has arrived, or none is needed.
  Gradients run_backward(Node& node, std::span<const Tensor> grads) const {
    Gradients gradients(node.inputs.size());
    const bool any = std::any_of(grads.begin(), grads.end(), [](const Tensor& t) { return t.defined(); });
    const bool wanted =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Edge& e) { return is_needed(e); });
    if (!any || !wanted) return gradients;
    // What the operator kept is released when it is done, whether or not it succeeds.
    const BackwardMulti backward = std::exchange(node.backward, nullptr);
    const BackwardScope scope(node.op.c_str());
    const CommScope comm_scope = CommScope::in_place(backward_name(node.caused_by));
    const OperatorTimer timer(node.op, true);
    gradients = backward(grads);
    require(gradients.size() == node.inputs.size(), node.op.c_str(),
            "backward gave {} gradients for {} inputs", gradients.size(), node.inputs.size());
    return gradients;
  }

  /// True if the node works on plain tensors alone, nobody looks at its gradient, and that has arrived
  /// unreduced. Being linear, the node can run on each rank's addend, so that the reduction happens once,
  /// where the history ends.
  bool passes_addends(const Node& node, std::span<const GradientSum> inbox) const {
    if (!is_unobserved(node)) return false;
    Mesh mesh;
    for (std::size_t i = 0; i < inbox.size(); ++i) {
      if (node.outputs[i].layout) return false;
      if (inbox[i].empty()) continue;
      const Mesh own = inbox[i].mesh();
      if (!own || (mesh && !(mesh == own))) return false;
      mesh = own;
    }
    return mesh && std::none_of(node.inputs.begin(), node.inputs.end(), [&](const Edge& e) {
             return is_needed(e) && e.node->outputs[static_cast<std::size_t>(e.output)].layout;
           });
  }

  Gradients run_on_addends(Node& node, std::span<const GradientSum> inbox) const {
    Mesh mesh;
    std::vector<Tensor> addends;
    for (const GradientSum& sum : inbox) {
      addends.push_back(sum.empty() ? Tensor() : sum.addends().as_plain());
      if (!sum.empty()) mesh = sum.mesh();
    }
    Gradients gradients = run_backward(node, addends);
    for (Tensor& g : gradients)
      if (g) g = g.with_layout(pending_on(mesh, g.shape()));
    return gradients;
  }

  /// The complete gradient of an output after its hooks.
  static Tensor finished(const OutputMeta& output, Tensor grad) {
    if (!grad || output.hooks.empty()) return grad;
    for (const auto& hook : output.hooks) {
      if (const Tensor replaced = hook(as_gradient(grad))) grad = replaced;
    }
    return grad;
  }

  /// Hands gradient(i) of output i to those who asked for it.
  template <typename Gradient>
  void capture(const Node& node, const Gradient& gradient) const {
    const auto found = goal_.slots.find(&node);
    if (found == goal_.slots.end()) return;
    for (const auto& [output, slot] : found->second) *slot = gradient(static_cast<std::size_t>(output));
  }

  static void accumulate_leaf(Node& node, const GradientSum& sum) {
    const auto impl = node.leaf.lock();
    if (sum.empty() || !impl) return;
    const CommScope scope = booked_on(sum);
    AutogradMeta& meta = *impl->autograd;
    const Layout& like = node.outputs[0].layout;
    Tensor grad =
        meta.defer_domain_sum ? addend_of(sum.combined(like), *meta.defer_domain_sum) : sum.resolved(like);
    grad = finished(node.outputs[0], grad);
    if (!meta.grad) {
      meta.grad = as_gradient(grad.clone());
    } else if (!meta.grad_is_stale) {
      accumulate(meta.grad, grad, true);
    } else if (!shares_storage(meta.grad, grad)) {
      meta.grad.copy_from(grad);
    }
    meta.grad.mark_written();
    meta.grad_is_stale = meta.grad_is_lent = false;
    for (const auto& hook : meta.post_hooks) hook();
  }

  const Goal goal_;
  std::unordered_map<const Node*, State> states_;
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

Gradients captured(Goal goal, const Tensor& output, const Tensor& cotangent, std::span<const Tensor> inputs) {
  Gradients result(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Edge edge = edge_of(inputs[i]);
    if (edge.node) goal.slots[edge.node.get()].emplace_back(edge.output, &result[i]);
  }
  Engine(std::move(goal)).run({&output, 1}, {&cotangent, 1});
  return result;
}

}  // namespace

bool accumulates_into_leaves() {
  return t_accumulates;
}

bool is_accumulating() {
  return t_accumulating > 0;
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> cotangents) {
  require(outputs.size() == cotangents.size(), "backward", "{} outputs and {} cotangents", outputs.size(),
          cotangents.size());
  Engine({}).run(values_of(outputs), cotangents);
}

Gradients gradients(const Tensor& output, std::span<const Tensor> inputs, Tensor cotangent) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(edge_of(inputs[i]).node != nullptr, "gradients", "input {} does not require a gradient", i);
  }
  return captured({.kind = Goal::Kind::capture}, values_of({&output, 1})[0], cotangent, inputs);
}

Gradients gradients_at(const Tensor& output, const Tensor& cotangent, std::span<const Tensor> ends,
                       std::uint64_t start) {
  return captured({.kind = Goal::Kind::end, .start = start}, output, cotangent, ends);
}

}  // namespace tessera
