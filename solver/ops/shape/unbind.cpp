#include "parallel/strided_block.hpp"
#include "solver/ops/layout_builder.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

/// The dimension whole; pending axes stay pending.
std::optional<Sharding> unbind_rule(std::span<const Tensor> operands, const std::any& parameters) {
  Layout x = operands[0].layout();
  const int axis = x.mesh_axis_of(std::any_cast<int>(parameters));
  if (axis >= 0) x = x.with_placement(axis, Replicate());
  return Sharding{{x}, {}};
}

const Operator& kUnbind = register_operator({.name = "unbind",
                                             .signature = "unbind(x, dim)",
                                             .family = "shape",
                                             .cuts = {{"dim", Moves::gather}, {"other"}},
                                             .rule = unbind_rule});

/// `x` without its dimension `dim`, which is whole.
Layout without_dim(const Layout& x, int dim) {
  Shape shape = x.shape();
  shape.erase(dim);
  LayoutBuilder builder(x.mesh(), shape);
  for (int a = 0; a < x.mesh().axes(); ++a) {
    const Placement& p = x.placement(a);
    builder.like(x, a, p.is_shard() && p.dim > dim ? -1 : 0);
  }
  return builder.build();
}

/// Index `i` of the middle of (outer, n, inner), whose rows follow each other in the part (outer, inner).
StridedBlock rows_at(const Shape& local, int dim, Index i) {
  Index outer = 1, inner = 1;
  for (int d = 0; d < dim; ++d) outer *= local[d];
  for (int d = dim + 1; d < local.size(); ++d) inner *= local[d];
  StridedBlock block;
  block.push_back(outer, local[dim] * inner, inner);
  block.push_back(inner, 1, 1);
  block.from = i * inner;
  return block;
}

void copy(const StridedBlock& block, const Tensor& from, const Tensor& to) {
  if (block.volume() > 0) copy_block(simplify(block), from.raw(), to.raw(), size_of(from.dtype()));
}

}  // namespace

std::vector<Tensor> unbind(const Tensor& x_in, int dim_in) {
  const int dim = checked_dim(x_in, dim_in, "unbind");
  const OperatorCall call(kUnbind, {x_in}, dim);
  const Tensor& x = call[0];
  Shape shape = x.shape();
  shape.erase(dim);
  const Layout layout = x.is_shard() ? without_dim(x.layout(), dim) : Layout();
  std::vector<Tensor> parts;
  for (Index i = 0; i < x.dim(dim); ++i) {
    parts.push_back(Tensor::empty(layout, shape, x.dtype()));
    copy(rows_at(x.local_shape(), dim, i), x, parts.back());
  }
  record_multi("unbind", call.operands(), parts,
               [dim, like = x.is_shard() ? x.layout().reduced() : Layout(), whole = x.shape(),
                local = x.local_shape(), type = x.dtype()](std::span<const Tensor> grads) {
                 const Tensor gx = Tensor::empty(like, whole, type);
                 for (std::size_t i = 0; i < grads.size(); ++i) {
                   const StridedBlock block = reversed(rows_at(local, dim, static_cast<Index>(i)));
                   Shape part = local;
                   part.erase(dim);
                   copy(block, grads[i] ? grads[i] : Tensor::zeros(part, type), gx);
                 }
                 return Gradients{gx};
               });
  return parts;
}

}  // namespace tessera
