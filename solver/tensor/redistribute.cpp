#include "solver/tensor/redistribute.hpp"

#include <algorithm>

#include "parallel/exchange_plan.hpp"
#include "solver/tensor/node.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

/// In-place reduction over one mesh axis of the local elements, staged through the communicator's memory.
void all_reduce(Communicator& comm, const Tensor& t, ReduceOp op) {
  if (comm.size() == 1 || t.local_count() == 0) return;
  if (comm.space() == MemorySpace::device) {
    comm.all_reduce(t.raw(), t.local_count(), t.dtype(), op);
    return;
  }
  const MemoryBlock staged(MemorySpace::host, t.bytes());
  copy_bytes(staged.data(), MemorySpace::host, t.raw(), MemorySpace::device, t.bytes());
  comm.all_reduce(staged.data(), t.local_count(), t.dtype(), op);
  copy_bytes(t.raw(), MemorySpace::device, staged.data(), MemorySpace::host, t.bytes());
}

bool commute(ReduceOp a, ReduceOp b) {
  const auto is_linear = [](ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::avg; };
  return a == b || (is_linear(a) && is_linear(b));
}

/// The Partial axes of `from` whose pending reduction has to happen on the way to `to`: those that `to` does
/// not leave pending, and, since pending reductions apply in the order of the mesh axes, earlier ones that do
/// not commute with them.
InlineVector<int> ended_partials(const Layout& from, const Layout& to) {
  InlineVector<int> axes;
  for (int a = from.mesh().axes() - 1; a >= 0; --a) {
    const Placement& p = from.placement(a);
    if (!p.is_partial()) continue;
    const bool overtaken = std::any_of(axes.begin(), axes.end(),
                                       [&](int later) { return !commute(p.op, from.placement(later).op); });
    if (overtaken || !(p == to.placement(a))) axes.insert(0, a);
  }
  return axes;
}

Layout with_replicated(Layout layout, const InlineVector<int>& axes) {
  for (int a : axes) layout = layout.with_placement(a, Replicate());
  return layout;
}

/// Reduces the Partial axes of `x` that end on the way to `target`.
Tensor end_partials(const Tensor& x, const Layout& target) {
  const Layout& layout = x.layout();
  const Mesh& mesh = layout.mesh();
  const InlineVector<int> axes = ended_partials(layout, target);
  if (axes.empty()) return x;
  const Tensor reduced = x.clone();
  const bool one_kind = std::all_of(axes.begin(), axes.end(),
                                    [&](int a) { return layout.placement(a) == layout.placement(axes[0]); });
  if (one_kind && axes.size() == mesh.axes()) {
    all_reduce(mesh.comm(), reduced, layout.placement(0).op);
  } else {
    for (int a : axes) all_reduce(mesh.axis_comm(a), reduced, layout.placement(a).op);
  }
  return reduced.with_layout(with_replicated(layout, axes));
}

/// Moves Shard and Replicate axes to the boxes of `target` (Partial axes of both agree, or are Replicate in
/// x).
Tensor move_boxes(const Tensor& x, const Layout& target) {
  const ExchangePlan plan(x.layout(), [&](int rank) { return need_of(target, rank); });
  Tensor y = Tensor::empty(target, x.dtype());
  plan.forward(x.raw(), y.raw(), x.dtype());
  return y;
}

/// True if this rank keeps the value when a Replicate axis turns into addends.
bool keeps_value(const Layout& layout, int axis) {
  return layout.mesh().coords()[axis] == 0;
}

/// Replicate axes of x that are Partial in `target` become addends: sums keep the value on coordinate 0, the
/// other kinds keep it everywhere.
Tensor begin_partials(const Tensor& x, const Layout& target) {
  bool zero = false;
  for (int a = 0; a < target.mesh().axes(); ++a) {
    const Placement& to = target.placement(a);
    if (to.is_partial() && to.op == ReduceOp::sum && x.layout().placement(a).is_replicate()) {
      zero = zero || !keeps_value(target, a);
    }
  }
  return zero ? Tensor::zeros(target, x.dtype()) : x.with_layout(target);
}

Tensor move(const Tensor& x, const Layout& target) {
  const Tensor summed = end_partials(x, target);
  // Shard or Replicate axes first reach the boxes of the target, whose new Partial axes are Replicate until
  // then.
  Layout boxes = target;
  for (int a = 0; a < target.mesh().axes(); ++a) {
    if (target.placement(a).is_partial() && !summed.layout().placement(a).is_partial()) {
      boxes = boxes.with_placement(a, Replicate());
    }
  }
  const Tensor moved = summed.layout() == boxes ? summed : move_boxes(summed, boxes);
  return moved.layout() == target ? moved : begin_partials(moved, target);
}

template <typename T>
void scale(T* data, Index n, double factor) {
  using C = Compute<T>;
  for_each(
      "scale", n, KOKKOS_LAMBDA(Index i) { store(data[i], load(data[i]) * static_cast<C>(factor)); });
}

template <typename T>
void keep_extremes(T* grad, const T* addend, const T* extreme, const T* holders, Index n) {
  using C = Compute<T>;
  for_each(
      "keep_extremes", n, KOKKOS_LAMBDA(Index i) {
        const bool holds = load(addend[i]) == load(extreme[i]);
        store(grad[i], holds ? load(grad[i]) / load(holders[i]) : C(0));
      });
}

template <typename T>
void mark_extremes(T* holders, const T* addend, const T* extreme, Index n) {
  using C = Compute<T>;
  for_each(
      "mark_extremes", n,
      KOKKOS_LAMBDA(Index i) { store(holders[i], load(addend[i]) == load(extreme[i]) ? C(1) : C(0)); });
}

/// Gives the cotangent of an extreme to the addends that hold it, in equal shares over the mesh axes `axes`.
/// `x` holds the addends, `extreme` the reduced value, both with the boxes of `grad`.
Tensor share_extremes(const Tensor& grad, const Tensor& x, const Tensor& extreme,
                      const InlineVector<int>& axes) {
  const Tensor result = grad.clone();
  const Tensor holders = Tensor::empty_like(result);
  dispatch_floating(x.dtype(), "redistribute", [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    mark_extremes(holders.data<T>(), x.data<T>(), extreme.data<T>(), x.local_count());
    for (int a : axes) all_reduce(x.layout().mesh().axis_comm(a), holders, ReduceOp::sum);
    keep_extremes(result.data<T>(), x.data<T>(), extreme.data<T>(), holders.data<T>(), x.local_count());
  });
  return result;
}

bool is_extreme(const Placement& p) {
  return p.is_partial() && (p.op == ReduceOp::max || p.op == ReduceOp::min);
}

/// Where `target` began to be Partial, each rank's addend is a copy of the value, or, of a sum, nothing but
/// on one rank: the addends' gradients add up. (Those of sums are the same on all ranks unless an extreme is
/// pending, too.)
Tensor sum_begun_addends(const Tensor& grad, const Layout& before, const Layout& target) {
  const InlineVector<int> ended = ended_partials(before, target);
  const Placements& placements = target.placements();
  const bool extremes = std::any_of(placements.begin(), placements.end(), is_extreme);
  Layout from = grad.layout();
  bool zero = false;
  for (int a = 0; a < placements.size(); ++a) {
    const Placement& now = placements[a];
    const bool kept = before.placement(a) == now && std::find(ended.begin(), ended.end(), a) == ended.end();
    if (!now.is_partial() || kept || (now.op == ReduceOp::sum && !extremes)) continue;
    from = from.with_placement(a, Partial());
    zero = zero || (now.op == ReduceOp::sum && !keeps_value(target, a));
  }
  if (from == grad.layout()) return grad;
  return move(zero ? Tensor::zeros(from, grad.dtype()) : grad.with_layout(from), before.reduced());
}

/// Gradient of x from that of redistribute(x, target), `before` being the layout of x. The gradient of a
/// Partial tensor is that of each rank's addend: the same on all ranks for sum, divided by the group size for
/// avg, shared by the ranks that hold the extreme for max and min. x is only looked at in the last case.
Tensor redistribute_gradient(const Tensor& grad, const Tensor& x, const Layout& before,
                             const Layout& target) {
  const InlineVector<int> ended = ended_partials(before, target);
  Tensor result = sum_begun_addends(grad, before, target);
  if (ended.empty() || before.placement(ended[0]).op == ReduceOp::sum) return result;
  result = move(result, before.reduced());
  if (is_extreme(before.placement(ended[0]))) {
    return share_extremes(result, x, move(x, with_replicated(before, ended)), ended);
  }
  Index group = 1;
  for (int a : ended) group *= before.mesh().axis_size(a);
  result = result.clone();
  dispatch_floating(grad.dtype(), "redistribute", [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    scale(result.data<T>(), result.local_count(), 1.0 / static_cast<double>(group));
  });
  return result;
}

}  // namespace

Tensor redistribute(const Tensor& x, const Layout& target) {
  require(x.is_shard() && x.layout().mesh() == target.mesh() && x.shape() == target.shape(), "redistribute",
          "found {}, target {}", describe(x), to_string(target));
  if (x.layout() == target) return x;
  const InlineVector<int> ended = ended_partials(x.layout(), target);
  for (int a : ended) {
    if (x.layout().placement(a) == x.layout().placement(ended[0])) continue;
    // Reductions of several kinds happen one after the other.
    return redistribute(redistribute(x, x.layout().with_placement(ended[0], Replicate())), target);
  }
  const CommScope scope("redistribute");
  Tensor y = move(x.detach(), target);
  const bool needs_x = !ended.empty() && is_extreme(x.layout().placement(ended[0]));
  record("redistribute", {x}, y,
         [addends = needs_x ? x.detach() : Tensor(), before = x.layout(), target](const Tensor& grad) {
           return Gradients{redistribute_gradient(grad, addends, before, target)};
         });
  return y;
}

Tensor reduce_partial(const Tensor& x) {
  return x.is_shard() && x.layout().has_partial() ? redistribute(x, x.layout().reduced()) : x;
}

Tensor promote(const Tensor& x, const Mesh& mesh) {
  if (x.is_shard()) return x;
  Tensor y = x.with_layout(Layout::replicated(mesh, x.shape()));
  record_identity("promote", x, y);
  return y;
}

Tensor scatter(const Tensor& global, const Layout& layout, DType type, int source) {
  const CommScope scope("scatter");
  const Mesh& mesh = layout.mesh();
  const std::size_t size = size_of(type);
  constexpr int tag = 77;
  Tensor local = Tensor::empty(layout, type);
  // The source sends each rank its box, cut out by a local plan, one after the other.
  auto cut = [&](int rank) {
    const ExchangePlan plan(layout.shape(), need_of(layout.reduced(), rank));
    const Tensor part = Tensor::empty(plan.destination_shape(), type);
    plan.forward(global.raw(), part.raw(), type);
    return part;
  };
  Communicator& comm = mesh.comm();
  if (mesh.rank() == source) {
    require(global.defined() && global.shape() == layout.shape() && global.dtype() == type, "scatter",
            "found {}, expected {}", describe(global), to_string(layout));
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Tensor part = cut(rank);
      if (rank == source) {
        local.copy_from(part.as_plain(local.local_shape()));
      } else if (part.local_count() > 0) {
        const MemoryBlock staged(MemorySpace::host, part.bytes());
        copy_bytes(staged.data(), MemorySpace::host, part.raw(), MemorySpace::device, part.bytes());
        comm.send(staged.data(), part.local_count(), type, rank, tag);
      }
    }
  } else if (local.local_count() > 0) {
    const MemoryBlock staged(MemorySpace::host, static_cast<std::size_t>(local.local_count()) * size);
    comm.receive(staged.data(), local.local_count(), type, source, tag);
    copy_bytes(local.raw(), MemorySpace::device, staged.data(), MemorySpace::host, local.bytes());
  }
  return local;
}

Tensor from_local(const Tensor& local, const Layout& layout) {
  Tensor y = local.with_layout(layout);
  record("from_local", {local}, y,
         [shape = local.shape()](const Tensor& grad) { return Gradients{grad.as_plain(shape)}; });
  return y;
}

Tensor to_local(const Tensor& x) {
  if (!x.is_shard()) return x;
  Tensor y = x.as_plain();
  record("to_local", {x}, y,
         [layout = x.layout().reduced()](const Tensor& grad) { return Gradients{grad.with_layout(layout)}; });
  return y;
}

Tensor full_tensor(const Tensor& x) {
  if (!x.is_shard()) return x;
  return to_local(redistribute(x, Layout::replicated(x.layout().mesh(), x.shape())));
}

}  // namespace tessera
