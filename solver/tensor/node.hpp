#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "solver/tensor/autograd.hpp"

// Internal to automatic differentiation: the recorded graph.
namespace tessera {

/// Where the gradient of an operator's input goes: output `output` of `node`. A null node needs no gradient.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;
};

/// What is known of a tensor whose gradient a node receives.
struct OutputMeta {
  Shape shape;
  DType type = DType::f32;
  Layout layout;
  std::vector<std::function<Tensor(const Tensor&)>> hooks;
};

/// One recorded operator, or the accumulator of a leaf. Nodes run in falling order of `sequence`.
class Node {
 public:
  std::string op;
  std::uint64_t sequence = 0;
  std::vector<Edge> inputs;
  std::vector<OutputMeta> outputs;
  BackwardMulti backward;            ///< empty once it has run
  std::weak_ptr<Tensor::Impl> leaf;  ///< the leaf whose accumulator this is
  bool is_leaf = false;
};

struct AutogradMeta {
  bool requires_grad = false;
  std::optional<Mesh> defer_domain_sum;
  Tensor grad;
  std::shared_ptr<Node> grad_fn;      ///< the operator that made this tensor; null for leaves
  int output = 0;                     ///< which of its outputs
  std::shared_ptr<Node> accumulator;  ///< leaves only
  std::vector<std::function<void()>> post_hooks;
};

/// The edge to which the gradient of `t` flows.
Edge edge_of(const Tensor& t);

/// Brings a gradient to the layout of the tensor it belongs to (`like`: layout, or none for a plain tensor).
Tensor resolve_gradient(const Tensor& gradient, const Layout& like);
/// The gradient as addends, Partial(sum) on every axis of `mesh`. A plain one is the same on all ranks.
Tensor addends_on(const Mesh& mesh, const Tensor& gradient);
/// The gradient of a plain tensor as this rank's addend, plain: over the gradient's own mesh, or over
/// `domain` where it is plain itself and therefore the same on all ranks of it.
Tensor addend_of(const Tensor& gradient, const Mesh& domain);
/// a + b; in place where `owned` says that nobody else holds a.
Tensor accumulate(const Tensor& a, const Tensor& b, bool owned);

}  // namespace tessera
