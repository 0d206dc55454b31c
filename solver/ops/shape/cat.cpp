#include "parallel/exchange_plan.hpp"
#include "solver/ops/layout_builder.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

/// Cut points of the joined dimension on mesh axis `m`: the operands' cut points added up, those that are
/// whole on the axis cut like `first` is.
Partition joined_cuts(std::span<const Tensor> tensors, int dim, int m, const Partition& first) {
  std::vector<Index> cuts(first.cuts().size(), 0);
  for (const Tensor& t : tensors) {
    const Index extent = t.dim(dim);
    const bool cut = t.layout().placement(m) == Shard(dim);
    const Partition even = Partition::even(extent, first.parts());
    for (std::size_t p = 0; p < cuts.size(); ++p) {
      const Index alike = first.extent() ? extent * first.cuts()[p] / first.extent() : even.cuts()[p];
      cuts[p] += cut ? t.layout().partition(m).cuts()[p] : alike;
    }
  }
  return Partition(std::move(cuts));
}

/// Each mesh axis does what it does to the first operand that it cuts.
Layout joined_layout(std::span<const Tensor> tensors, int dim, const Shape& shape) {
  const Mesh& mesh = tensors[0].layout().mesh();
  LayoutBuilder builder(mesh, shape);
  std::vector<bool> taken(static_cast<std::size_t>(shape.size()), false);
  for (int m = 0; m < mesh.axes(); ++m) {
    for (const Tensor& t : tensors) {
      const Placement& p = t.layout().placement(m);
      if (!p.is_shard() || taken[static_cast<std::size_t>(p.dim)]) continue;
      const Partition& cuts = t.layout().partition(m);
      builder.shard(m, p.dim, p.dim == dim ? joined_cuts(tensors, dim, m, cuts) : cuts);
      taken[static_cast<std::size_t>(p.dim)] = true;
      break;
    }
  }
  return builder.build();
}

/// What `box` of one tensor needs of another of `shape`, whose index i along `dim` is index i + lo of the
/// first.
NeedMap need_at(const Box& box, const Shape& shape, int dim, Index lo) {
  NeedMap need;
  for (int d = 0; d < box.size(); ++d) {
    const Index moved = d == dim ? lo : 0;
    need.push_back(box.is_empty()
                       ? AxisMap{box[d], {}}
                       : map_with_boundary({box[d].lo - moved, box[d].hi - moved}, shape[d], Boundary::zero));
  }
  return need;
}

/// The movement between two tensors, plain or on one mesh.
ExchangePlan plan_at(const Tensor& from, const Layout& to, const Shape& to_shape, int dim, Index lo) {
  if (!to) return ExchangePlan(from.shape(), need_at(Box::whole(to_shape), from.shape(), dim, lo));
  return ExchangePlan(from.layout(), [&](int rank) { return need_at(to.box(rank), from.shape(), dim, lo); });
}

void check(std::span<const Tensor> tensors, int dim) {
  for (const Tensor& t : tensors) {
    Shape expected = tensors[0].shape();
    if (t.ndim() == expected.size()) expected[dim] = t.dim(dim);
    if (!(t.shape() == expected) || t.dtype() != tensors[0].dtype()) {
      fail(ExitCode::usage, "cat", "found {}, expected {} {}", describe(t), name_of(tensors[0].dtype()),
           to_string(expected));
    }
  }
}

const Operator& kCat = register_operator({.name = "cat",
                                          .signature = "cat(tensors, dim)",
                                          .family = "shape",
                                          .cuts = {{"dim", Moves::exchange}, {"other"}},
                                          .rule = keep_rule()});

}  // namespace

Tensor cat(std::span<const Tensor> tensors, int dim_in) {
  if (tensors.empty()) fail(ExitCode::usage, "cat", "found no tensors");
  const int dim = checked_dim(tensors[0], dim_in, "cat");
  check(tensors, dim);
  const OperatorCall call(kCat, tensors);
  std::vector<Tensor> parts;
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) parts.push_back(call.on_mesh(i));
  const DType type = parts[0].dtype();
  Shape shape = parts[0].shape();
  shape[dim] = 0;
  for (const Tensor& t : parts) shape[dim] += t.dim(dim);
  const Layout layout = parts[0].is_shard() ? joined_layout(parts, dim, shape) : Layout();
  Tensor y = Tensor::empty(layout, shape, type);
  std::vector<ExchangePlan::Motion> motions;
  Index lo = 0;
  for (const Tensor& t : parts) {
    motions.push_back(plan_at(t, layout, shape, dim, lo).start(t.raw(), y.raw(), type));
    lo += t.dim(dim);
  }
  for (auto& motion : motions) motion.finish();
  std::vector<std::pair<Layout, Shape>> operands;
  for (const Tensor& t : parts) operands.emplace_back(t.layout(), t.shape());
  // The gradient goes back by plans of its own, not by adjoints: an element takes its value from one holder
  // of the cotangent, which a replicated result has several of.
  record("cat", parts, y, [operands, dim, type](const Tensor& gy) {
    Gradients grads;
    std::vector<ExchangePlan::Motion> returns;
    Index at = 0;
    for (const auto& [own, own_shape] : operands) {
      grads.push_back(Tensor::empty(own, own_shape, type));
      returns.push_back(plan_at(gy, own, own_shape, dim, -at).start(gy.raw(), grads.back().raw(), type));
      at += own_shape[dim];
    }
    for (auto& motion : returns) motion.finish();
    return grads;
  });
  return y;
}

}  // namespace tessera
