#include "solver/ops/elementwise/broadcast.hpp"

#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

/// The dimension of an operand that lines up with dimension `d` of the result, or -1 if it is stretched or
/// absent there.
int operand_dim(const Shape& operand, const Shape& result, int d) {
  const int own = d - (result.size() - operand.size());
  return own >= 0 && operand[own] == result[d] ? own : -1;
}

Layout operand_layout(const Shape& operand, const Layout& result) {
  Layout layout = Layout::replicated(result.mesh(), operand);
  for (int a = 0; a < result.mesh().axes(); ++a) {
    if (!result.placement(a).is_shard()) continue;
    const int own = operand_dim(operand, result.shape(), result.placement(a).dim);
    if (own >= 0) layout = layout.with_placement(a, Shard(own), result.partition(a));
  }
  return layout;
}

/// Sums over one dimension: from is (outer, extent, inner), to is (outer, inner).
template <typename T>
void sum_middle(T* to, const T* from, Index outer, Index extent, Index inner) {
  for_each(
      "sum_middle", outer, KOKKOS_LAMBDA(Index o) {
        for (Index i = 0; i < inner; ++i) {
          Compute<T> sum = 0;
          for (Index e = 0; e < extent; ++e) sum += load(from[(o * extent + e) * inner + i]);
          store(to[o * inner + i], sum);
        }
      });
}

}  // namespace

Shape broadcast_shape(const Shape& a, const Shape& b, std::string_view op) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape shape = longer;
  for (int d = 0; d < shorter.size(); ++d) {
    Index& extent = shape[d + longer.size() - shorter.size()];
    require(extent == shorter[d] || extent == 1 || shorter[d] == 1, std::string(op).c_str(),
            "shapes {} and {} do not broadcast", to_string(a), to_string(b));
    if (extent == 1) extent = shorter[d];
  }
  return shape;
}

Tensor sum_to_operand(const Tensor& grad, const Shape& shape) {
  if (grad.shape() == shape) return grad;
  Shape local = grad.local_shape();
  Tensor sum = grad.as_plain(local);
  for (int d = 0; d < grad.ndim(); ++d) {
    if (operand_dim(shape, grad.shape(), d) >= 0) continue;
    Index outer = 1, inner = 1;
    for (int i = 0; i < d; ++i) outer *= local[i];
    for (int i = d + 1; i < local.size(); ++i) inner *= local[i];
    const Index extent = local[d];
    local[d] = 1;
    const Tensor next = Tensor::empty(local, grad.dtype());
    dispatch_floating(grad.dtype(), "sum_to_operand", [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      sum_middle(next.data<T>(), sum.data<T>(), outer, extent, inner);
    });
    sum = next;
  }
  while (local.size() > shape.size()) local.erase(0);
  if (!grad.is_shard()) return sum.as_plain(local);
  Layout layout = operand_layout(shape, grad.layout());
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    if (grad.layout().placement(a).is_shard() && !layout.placement(a).is_shard()) {
      layout = layout.with_placement(a, Partial());
    }
  }
  return sum.with_layout(layout);
}

}  // namespace tessera
