#include "solver/ops/norm/affine.hpp"

#include "solver/ops/layout_builder.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera::norm {
namespace {

/// The parameter cut as x's trailing dimensions are. A plain one stays plain where nothing is cut, so that
/// its gradient is summed once, at the leaf.
Tensor fit(const Tensor& parameter, const Layout& x, const Shape& shape) {
  if (!parameter || !x) return parameter;
  const int shift = shape.size() - x.shape().size();
  LayoutBuilder target(x.mesh(), shape);
  bool cut = false;
  for (int a = 0; a < x.mesh().axes(); ++a) {
    const Placement& p = x.placement(a);
    if (!p.is_shard() || p.dim + shift < 0) continue;
    target.like(x, a, shift);
    cut = true;
  }
  if (!parameter.is_shard() && !cut) return parameter;
  return redistribute(parameter.is_shard() ? parameter : promote(parameter, x.mesh()), target.build());
}

Tensor local(const Tensor& parameter, const Shape& shape, double value, DType type) {
  if (!parameter) return Tensor::full(shape, value, type);
  const Tensor plain = parameter.detach().as_plain();
  return plain.dtype() == type ? plain : plain.to(type);
}

}  // namespace

Tensor prepared(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.is_shard()) return reduce_partial(x);
  for (const Tensor* t : {&weight, &bias}) {
    if (*t && t->is_shard()) return promote(x, t->layout().mesh());
  }
  return x;
}

Affine make_affine(const char* op, const Tensor& x, const Shape& shape, const Tensor& weight,
                   const Tensor& bias) {
  for (const Tensor* t : {&weight, &bias}) {
    if (*t && t->shape() != shape) {
      fail(ExitCode::internal, op, "weight or bias: found {}, expected {}", to_string(t->shape()),
           to_string(shape));
    }
  }
  Affine affine;
  affine.shape = shape;
  affine.weight = fit(weight, x.layout(), shape);
  affine.bias = fit(bias, x.layout(), shape);
  const int shift = x.ndim() - shape.size();
  Shape local_shape;
  for (int d = shift; d < x.ndim(); ++d) local_shape.push_back(x.local_shape()[d]);
  const DType type = compute_type(x.dtype());
  affine.local_weight = local(affine.weight, local_shape, 1, type);
  affine.local_bias = local(affine.bias, local_shape, 0, type);
  if (x.is_shard()) {
    LayoutBuilder gradient(x.layout().mesh(), shape);
    for (int a = 0; a < x.layout().mesh().axes(); ++a) {
      const Placement& p = x.layout().placement(a);
      if (!p.is_shard()) continue;
      if (p.dim >= shift)
        gradient.like(x.layout(), a, -shift);
      else
        gradient.partial(a);
    }
    affine.gradient = gradient.build();
  }
  return affine;
}

}  // namespace tessera::norm
