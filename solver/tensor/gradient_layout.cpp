// Gradients brought to the layout of the tensor they belong to, and added up.
#include "solver/tensor/node.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

template <typename T>
void add(T* sum, const T* a, const T* b, Index n) {
  for_each(
      "accumulate", n, KOKKOS_LAMBDA(Index i) { store(sum[i], load(a[i]) + load(b[i])); });
}

}  // namespace

Tensor resolve_gradient(const Tensor& gradient, const Layout& like) {
  if (!like) return gradient.is_shard() ? full_tensor(gradient) : gradient;
  const Layout target = like.reduced();
  if (gradient.is_shard()) return redistribute(gradient, target);
  require(target.is_replicated() || target.mesh().size() == 1, "backward", "plain gradient {} for {}",
          describe(gradient), to_string(like));
  return gradient.with_layout(target);
}

Tensor addends_on(const Mesh& mesh, const Tensor& gradient) {
  const Tensor whole =
      gradient.is_shard() ? gradient : gradient.with_layout(Layout::replicated(mesh, gradient.shape()));
  return redistribute(whole, pending_on(mesh, gradient.shape()));
}

Tensor addend_of(const Tensor& gradient, const Mesh& domain) {
  if (!gradient.is_shard() && !domain) return gradient;
  const Mesh& mesh = gradient.is_shard() ? gradient.layout().mesh() : domain;
  require(mesh.size() == (domain ? domain.size() : 1), "backward",
          "gradient {} for a sum over {} ranks that was left to others", describe(gradient),
          domain ? domain.size() : 1);
  return addends_on(mesh, gradient).as_plain(gradient.shape());
}

Layout pending_on(const Mesh& mesh, const Shape& shape) {
  return Layout(mesh, Placements::filled(mesh.axes(), Partial()), shape, {});
}

Tensor accumulate(const Tensor& a, const Tensor& b, bool owned) {
  require(a.local_shape() == b.local_shape() && a.dtype() == b.dtype(), "backward",
          "gradients {} and {} do not add up", describe(a), describe(b));
  const Tensor sum = owned ? a : Tensor::empty_like(a);
  dispatch_floating(a.dtype(), "accumulate", [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    add(sum.data<T>(), a.data<T>(), b.data<T>(), a.local_count());
  });
  return sum;
}

std::string backward_name(std::string_view op) {
  return op.empty() ? "backward" : std::string(op) + " backward";
}

void GradientSum::add(const Tensor& gradient, std::string_view op) {
  if (terms_.empty()) op_ = op;
  for (Term& term : terms_) {
    if (!(term.sum.layout() == gradient.layout())) continue;
    term.sum = accumulate(term.sum, gradient, term.owned);
    term.owned = true;
    return;
  }
  terms_.push_back({gradient, false});
}

Mesh GradientSum::mesh() const {
  Mesh mesh;
  for (const Term& term : terms_) {
    if (!term.sum.is_shard()) continue;
    if (mesh && !(mesh == term.sum.layout().mesh())) return {};
    mesh = term.sum.layout().mesh();
  }
  return mesh;
}

Tensor GradientSum::addends() const {
  GradientSum sum;
  for (const Term& term : terms_) sum.add(addends_on(mesh(), term.sum));
  return sum.terms_.front().sum;
}

Tensor GradientSum::combined(const Layout& like) const {
  if (terms_.empty()) return {};
  if (terms_.size() == 1) return terms_.front().sum;
  if (!like && mesh()) return addends();
  GradientSum sum;
  for (const Term& term : terms_) sum.add(resolve_gradient(term.sum, like));
  return sum.terms_.front().sum;
}

Tensor GradientSum::resolved(const Layout& like) const {
  return terms_.empty() ? Tensor() : resolve_gradient(combined(like), like);
}

}  // namespace tessera
