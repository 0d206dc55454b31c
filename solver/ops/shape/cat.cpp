#include "parallel/exchange_plan.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

Layout with_extent(const Layout& layout, int dim, Index extent) {
  Shape shape = layout.shape();
  shape[dim] = extent;
  std::vector<Partition> partitions;
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    partitions.push_back(layout.placement(a).is_shard() ? layout.partition(a) : Partition({0, 0}));
  }
  return Layout(layout.mesh(), layout.placements(), shape, partitions);
}

/// The layout that all operands take: that of the first shard tensor, without Partial axes and with `dim`
/// replicated.
Layout common_layout(std::span<const Tensor> tensors, int dim) {
  for (const Tensor& t : tensors) {
    if (!t.is_shard()) continue;
    Layout layout = t.layout().reduced();
    const int axis = layout.mesh_axis_of(dim);
    return axis < 0 ? layout : layout.with_placement(axis, Replicate());
  }
  return {};
}

/// Rows [at, at + part) of dimension `dim` of a local buffer of shape `whole`.
ExchangePlan rows_plan(const Shape& whole, int dim, Index at, Index part) {
  NeedMap need;
  for (int d = 0; d < whole.size(); ++d) {
    need.push_back(d == dim ? map_affine({0, part}, at, 1) : map_identity({0, whole[d]}));
  }
  return ExchangePlan(whole, need);
}

}  // namespace

Tensor cat(std::span<const Tensor> tensors, int dim_in) {
  require(!tensors.empty(), "cat", "no tensors");
  const int dim = dim_in < 0 ? dim_in + tensors[0].ndim() : dim_in;
  const Layout common = common_layout(tensors, dim);
  std::vector<Tensor> parts;
  std::vector<Index> extents;
  Index total = 0;
  for (const Tensor& t : tensors) {
    Shape expected = tensors[0].shape();
    expected[dim] = t.dim(dim);
    require(t.shape() == expected && t.dtype() == tensors[0].dtype(), "cat", "found {}, expected shape {}",
            describe(t), to_string(expected));
    parts.push_back(common ? redistribute(promote(t, common.mesh()), with_extent(common, dim, t.dim(dim)))
                           : t);
    extents.push_back(t.dim(dim));
    total += t.dim(dim);
  }
  Shape shape = tensors[0].shape();
  shape[dim] = total;
  const DType type = tensors[0].dtype();
  Tensor y = common ? Tensor::zeros(with_extent(common, dim, total), type) : Tensor::zeros(shape, type);
  // Joining is the adjoint of cutting out rows.
  Index at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    rows_plan(y.local_shape(), dim, at, extents[i]).adjoint(parts[i].raw(), y.raw(), type);
    at += extents[i];
  }
  record("cat", parts, y, [extents, dim, common, type](const Tensor& g) {
    Gradients grads;
    Index from = 0;
    for (Index extent : extents) {
      Shape part = g.shape();
      part[dim] = extent;
      grads.push_back(common ? Tensor::empty(with_extent(common, dim, extent), type)
                             : Tensor::empty(part, type));
      rows_plan(g.local_shape(), dim, from, extent).forward(g.raw(), grads.back().raw(), type);
      from += extent;
    }
    return grads;
  });
  return y;
}

}  // namespace tessera
