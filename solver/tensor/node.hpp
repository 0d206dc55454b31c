#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  std::string caused_by;  ///< the operator that was called, of which this one may be a part
  std::uint64_t sequence = 0;
  std::vector<Edge> inputs;
  std::vector<OutputMeta> outputs;
  BackwardMulti backward;            ///< empty once it has run
  std::weak_ptr<Tensor::Impl> leaf;  ///< the leaf whose accumulator this is
  bool is_leaf = false;
  bool is_identity = false;  ///< one input, one output, of whichever layouts: gradients pass as they arrive
  bool reads_gradient = false;  ///< some input is a gradient, or was computed from one
};

struct AutogradMeta {
  bool requires_grad = false;
  std::optional<Mesh> defer_domain_sum;
  Tensor grad;
  bool grad_is_stale = false;         ///< counts as zero: the first contribution overwrites it
  bool grad_is_lent = false;          ///< an operator writes its contribution right there
  std::shared_ptr<Node> grad_fn;      ///< the operator that made this tensor; null for leaves
  int output = 0;                     ///< which of its outputs
  std::shared_ptr<Node> accumulator;  ///< leaves only
  std::vector<std::function<void()>> post_hooks;
  std::string gradient_of;  ///< not empty: a gradient, or computed from one by the operator named here
};

/// The edge to which the gradient of `t` flows.
Edge edge_of(const Tensor& t);
/// The number that the next recorded node gets.
std::uint64_t next_sequence();
/// `t` under a handle that says that it is a gradient, whose own history is not recorded.
Tensor as_gradient(const Tensor& t);

/// record() of an operator that changes how a tensor is seen, and nothing else.
void record_identity(const char* op, const Tensor& input, Tensor& output);

/// While it lives, tensors that operators of this thread are given and that require gradients are collected:
/// leaves, and results of operators recorded earlier.
class UseCollector {
 public:
  UseCollector();
  ~UseCollector();
  UseCollector(const UseCollector&) = delete;
  UseCollector& operator=(const UseCollector&) = delete;

  /// In the order of their first use.
  const std::vector<Tensor>& used() const { return used_; }
  static void note(std::span<const Tensor> inputs);

 private:
  UseCollector* outer_;
  std::uint64_t start_;
  std::vector<Tensor> used_;
};

/// Gradients of `output` with respect to `ends`, where the graph ends: as they arrive, in any layout, hooks
/// not called. For a graph that was recorded from number `start` on; anything older, and any leaf, has to be
/// among `ends`.
Gradients gradients_at(const Tensor& output, const Tensor& cotangent, std::span<const Tensor> ends,
                       std::uint64_t start);

/// While it lives, `op` is going backward: tensors that it reads must not have been written to in place since
/// their handles were made. Null: they may have been.
class BackwardScope {
 public:
  explicit BackwardScope(const char* op);
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  const char* outer_;
};

/// True while a backward pass of this thread runs that accumulates into leaves.
bool accumulates_into_leaves();
/// The same, of the passes that the running one is part of as well.
bool is_accumulating();

/// Throws (usage) where `t` is out of date inside a BackwardScope. data() and raw() call it.
void check_unmodified(const Tensor& t);

/// Brings a gradient to the layout of the tensor it belongs to (`like`: layout, or none for a plain tensor).
Tensor resolve_gradient(const Tensor& gradient, const Layout& like);
/// Partial(sum) on every axis.
Layout pending_on(const Mesh& mesh, const Shape& shape);
/// The gradient as addends under pending_on(mesh), without communication: what ranks share counts on the
/// first of them, a part is embedded in zeros. A plain one is the same on all ranks.
Tensor addends_on(const Mesh& mesh, const Tensor& gradient);
/// The gradient of a plain tensor as this rank's addend, plain: over the gradient's own mesh, or over
/// `domain` where it is plain itself and therefore the same on all ranks of it.
Tensor addend_of(const Tensor& gradient, const Mesh& domain);
/// a + b; in place where `owned` says that nobody else holds a.
Tensor accumulate(const Tensor& a, const Tensor& b, bool owned);

/// What the communication of an operator's backward pass is booked on: "conv backward".
std::string backward_name(std::string_view op);

/// What has arrived of one gradient: one sum per layout, so that however many contributions there are, a
/// pending reduction happens once.
class GradientSum {
 public:
  struct Term {
    Tensor sum;
    bool owned = false;  ///< nobody else holds it
  };
  const std::vector<Term>& terms() const { return terms_; }
  bool empty() const { return terms_.empty(); }
  /// `op` went backward to make it; "" where the pass starts.
  void add(const Tensor& gradient, std::string_view op = {});
  /// Of the first of them; what its reduction is booked on.
  const std::string& op() const { return op_; }
  /// The mesh of the shard tensors among them; none if there is none, or more than one mesh.
  Mesh mesh() const;
  /// All of it as addends on mesh().
  Tensor addends() const;
  /// In one tensor for a tensor laid out as `like`, of whichever layout; undefined if empty.
  Tensor combined(const Layout& like) const;
  /// The same, brought to the layout of `like`.
  Tensor resolved(const Layout& like) const;

 private:
  std::vector<Term> terms_;
  std::string op_;
};

}  // namespace tessera
