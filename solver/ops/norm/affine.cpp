#include "solver/ops/norm/affine.hpp"

#include "solver/ops/layout_builder.hpp"
#include "solver/ops/registry/rules.hpp"

namespace tessera::norm {
namespace {

/// The parameter cut as x's trailing dimensions are.
Layout fit(const Tensor& parameter, const Layout& x, int shift) {
  LayoutBuilder target(x.mesh(), parameter.shape());
  for (int a = 0; a < x.mesh().axes(); ++a) {
    const Placement& p = x.placement(a);
    if (p.is_shard() && p.dim + shift >= 0) target.like(x, a, shift);
  }
  return target.build();
}

Tensor local(const Tensor& parameter, const Shape& shape, double value, DType type) {
  if (!parameter) return Tensor::full(shape, value, type);
  const Tensor plain = parameter.detach().as_plain();
  return plain.dtype() == type ? plain : plain.to(type);
}

/// x stays as it is, without pending sums; weight and bias follow its trailing dimensions, a residual all of
/// them.
std::optional<Sharding> affine_rule(std::span<const Tensor> operands, const std::any& parameters) {
  const Tensor& x = operands[0];
  const auto options = std::any_cast<NormParameters>(parameters);
  Layout target = layout_on(mesh_of(operands), x).reduced();
  const int channel_axis = target.mesh_axis_of(x.ndim() - 1);
  if (options.whole_channels && channel_axis >= 0) target = target.with_placement(channel_axis, Replicate());
  Sharding sharding{{target}, target};
  for (const Tensor& parameter : operands.subspan(1, 2)) {
    sharding.operands.push_back(parameter ? fit(parameter, target, options.trailing - x.ndim()) : Layout());
  }
  for (const Tensor& residual : operands.subspan(3)) {
    sharding.operands.push_back(residual ? target : Layout());
  }
  return sharding;
}

}  // namespace

const Operator& normalisation(const char* name, const char* signature, std::vector<Cut> cuts) {
  return register_operator({.name = name,
                            .signature = signature,
                            .family = "norms",
                            .cuts = std::move(cuts),
                            .rule = affine_rule});
}

void check_affine(const char* op, const Shape& shape, const Tensor& weight, const Tensor& bias) {
  for (const Tensor* t : {&weight, &bias}) {
    if (*t && t->shape() != shape) {
      fail(ExitCode::internal, op, "weight or bias: found {}, expected {}", to_string(t->shape()),
           to_string(shape));
    }
  }
}

Affine make_affine(const OperatorCall& call, const Shape& shape) {
  const Tensor x = call.on_mesh(0);
  Affine affine;
  affine.shape = shape;
  affine.weight = call[1];
  affine.bias = call[2];
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
