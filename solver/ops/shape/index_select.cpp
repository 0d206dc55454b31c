#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/taps/axis_taps.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

/// The indices on the host, negative ones counted from the end.
std::vector<Index> checked_indices(const Tensor& index, Index n) {
  if (index.ndim() != 1 || index.dtype() != DType::i64) {
    fail(ExitCode::usage, "index_select", "found index {}, expected i64 (K)", describe(index));
  }
  std::vector<Index> indices = full_tensor(index).to_host<std::int64_t>();
  for (Index& i : indices) {
    if (i < -n || i >= n) fail(ExitCode::usage, "index_select", "index {} outside extent {}", i, n);
    if (i < 0) i += n;
  }
  return indices;
}

/// Segments of indices that advance by constant steps.
AxisMap map_indices(Range range, std::span<const Index> indices) {
  AxisMap map{range, {}};
  for (Index i = range.lo; i < range.hi;) {
    const auto at = [&](Index k) { return indices[static_cast<std::size_t>(k)]; };
    const Index step = i + 1 < range.hi ? at(i + 1) - at(i) : 1;
    Index end = i + 1;
    while (end < range.hi && at(end) - at(end - 1) == step) ++end;
    map.segments.push_back({i, end - i, at(i), step});
    i = end;
  }
  return map;
}

/// A dimension that no rank shares with others: rows are looked up locally.
Tensor select_locally(const Tensor& x, int dim, const std::vector<Index>& indices, const Layout& layout) {
  AxisTaps taps(x.dim(dim));
  for (Index i : indices) {
    taps.add(i, 1.0);
    taps.end_output();
  }
  const Tensor local = apply_taps(x.as_plain(), dim, taps);
  Tensor y = layout ? local.with_layout(layout) : local;
  record("index_select", {x}, y, [taps, dim, from = x.layout()](const Tensor& gy) {
    const Tensor gx = apply_taps(gy.as_plain(), dim, taps.transposed());
    return Gradients{from ? gx.with_layout(from) : gx};
  });
  return y;
}

const Operator& kIndexSelect = register_operator({.name = "index_select",
                                                  .signature = "index_select(x, dim, index)",
                                                  .family = "shape",
                                                  .cuts = {{"dim", Moves::exchange}, {"other"}},
                                                  .rule = keep_rule()});

}  // namespace

Tensor index_select(const Tensor& x_in, int dim_in, const Tensor& index) {
  const OperatorCall call(kIndexSelect, {x_in});
  const Tensor& x = call[0];
  const int dim = checked_dim(x, dim_in, "index_select");
  const std::vector<Index> indices = checked_indices(index, x.dim(dim));
  const auto total = static_cast<Index>(indices.size());
  Shape shape = x.shape();
  shape[dim] = total;
  const auto even = [&](const Partition& cuts) { return Partition::even(total, cuts.parts()); };
  const Layout layout = x.is_shard() ? x.layout().with_extent(dim, total, even) : Layout();
  const bool whole = !x.is_shard() || !x.layout().is_sharded(dim);
  if (whole && is_floating(x.dtype())) return select_locally(x, dim, indices, layout);
  std::vector<AxisSource> from(static_cast<std::size_t>(x.ndim()));
  from[static_cast<std::size_t>(dim)] = [&](Range range) { return map_indices(range, indices); };
  return rearrange("index_select", x, layout, shape, from);
}

}  // namespace tessera
