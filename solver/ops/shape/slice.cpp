#include <algorithm>

#include "parallel/division.hpp"
#include "parallel/exchange_plan.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

/// Number of selected indices below cut point c.
Index selected_below(Index c, Index start, Index step, Index total) {
  return std::clamp<Index>(ceil_div(std::max<Index>(c - start, 0), step), 0, total);
}

Layout sliced_layout(const Layout& layout, int dim, Index start, Index step, Index total) {
  return layout.with_extent(dim, total, [&](const Partition& cuts) {
    std::vector<Index> selected;
    for (Index c : cuts.cuts()) selected.push_back(selected_below(c, start, step, total));
    return Partition(std::move(selected));
  });
}

/// The local movement of a slice: which of its own elements a rank keeps.
ExchangePlan local_plan(const Tensor& x, const Tensor& y, int dim, Index start, Index step) {
  NeedMap need;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d != dim) {
      need.push_back(map_identity({0, x.local_shape()[d]}));
      continue;
    }
    const Index x_lo = x.is_shard() ? x.layout().local_box()[d].lo : 0;
    const Index y_lo = y.is_shard() ? y.layout().local_box()[d].lo : 0;
    need.push_back(map_affine({0, y.local_shape()[d]}, start + y_lo * step - x_lo, step));
  }
  return ExchangePlan(x.local_shape(), need);
}

const Operator& entry(const char* name, const char* signature, std::vector<Cut> cuts) {
  return register_operator({.name = name,
                            .signature = signature,
                            .family = "shape",
                            .cuts = std::move(cuts),
                            .rule = keep_pending_rule()});
}
const Operator& kSlice = entry("slice", "slice(x, dim, start, stop, step)", {{"any"}});
const Operator& kSplit = entry("split", "split(x, dim, sizes)", {{"any"}});
const Operator& kSelect = entry("select", "select(x, dim, index)", {{"dim", Moves::gather}, {"other"}});

}  // namespace

Tensor slice(const Tensor& x, int dim_in, Index start, Index stop, Index step) {
  const OperatorCall call(kSlice, {x});
  const int dim = checked_dim(x, dim_in, "slice");
  require(step >= 1 && start >= 0 && start <= stop && stop <= x.dim(dim), "slice",
          "found {}:{}:{}, extent is {}", start, stop, step, x.dim(dim));
  const Index total = ceil_div(stop - start, step);
  Shape shape = x.shape();
  shape[dim] = total;
  Tensor y = x.is_shard() ? Tensor::empty(sliced_layout(x.layout(), dim, start, step, total), x.dtype())
                          : Tensor::empty(shape, x.dtype());
  const ExchangePlan plan = local_plan(x, y, dim, start, step);
  plan.forward(x.raw(), y.raw(), x.dtype());
  record("slice", {x}, y, [plan, layout = x.layout(), whole = x.shape(), type = x.dtype()](const Tensor& g) {
    Tensor gx = Tensor::zeros(layout.reduced(), whole, type);
    plan.adjoint(g.raw(), gx.raw(), type);
    return Gradients{gx};
  });
  return y;
}

Tensor select(const Tensor& x, int dim, Index index) {
  const OperatorCall call(kSelect, {x});
  const int own = checked_dim(x, dim, "select");
  const Index at = index < 0 ? index + x.dim(own) : index;
  return squeeze(slice(x, own, at, at + 1), own);
}

std::vector<Tensor> split(const Tensor& x, int dim, std::span<const Index> sizes) {
  const OperatorCall call(kSplit, {x});
  std::vector<Tensor> parts;
  const Index extent = x.dim(checked_dim(x, dim, "split"));
  Index at = 0;
  for (Index size : sizes) {
    parts.push_back(slice(x, dim, at, at + size));
    at += size;
  }
  require(at == extent, "split", "sizes add up to {}, extent is {}", at, extent);
  return parts;
}

}  // namespace tessera
