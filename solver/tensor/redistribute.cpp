#include "solver/tensor/redistribute.hpp"

#include <algorithm>

#include "parallel/device_messages.hpp"
#include "parallel/exchange_plan.hpp"
#include "parallel/redistribution.hpp"
#include "solver/tensor/node.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

/// The elements of x under `target`, outside the history.
Tensor move(const Tensor& x, const Layout& target) {
  Tensor at = x.detach();
  for (const RedistributionStep& step : redistribution_steps(x.layout(), target)) {
    if (step.kind == RedistributionStep::Kind::relabel) {
      at = at.with_layout(step.to);
      continue;
    }
    const Tensor next = Tensor::empty(step.to, x.dtype());
    step.run(at.raw(), next.raw(), x.dtype());
    at = next;
  }
  return at;
}

Layout with_replicated(Layout layout, const InlineVector<int>& axes) {
  for (int a : axes) layout = layout.with_placement(a, Replicate());
  return layout;
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
    for (int a : axes) {
      if (holders.local_count() == 0) break;
      device_all_reduce(x.layout().mesh().axis_comm(a), holders.raw(), holders.local_count(), holders.dtype(),
                        ReduceOp::sum)
          .wait();
    }
    keep_extremes(result.data<T>(), x.data<T>(), extreme.data<T>(), holders.data<T>(), x.local_count());
  });
  return result;
}

bool is_extreme(const Placement& p) {
  return p.is_partial() && (p.op == ReduceOp::max || p.op == ReduceOp::min);
}

/// Where `target` began to be Partial, each rank's addend is a copy of the value, or, of a sum, nothing but
/// on one rank: the addends' gradients add up. (Those of sums are the same on all ranks unless an extreme is
/// pending, too.) Where the addends are shards amid zeros, each rank's gradient is right for its own shard.
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
    if (embeds_shards(before, target, a)) continue;
    from = from.with_placement(a, Partial());
    zero = zero || (now.op == ReduceOp::sum && target.mesh().coords()[a] != 0);
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

/// The layout after the first reduction on the way to `target`.
Layout first_reduction(const Layout& from, const Layout& target) {
  const std::vector<RedistributionStep> steps = redistribution_steps(from, target);
  return std::find_if(
             steps.begin(), steps.end(),
             [](const RedistributionStep& step) { return step.kind != RedistributionStep::Kind::relabel; })
      ->to;
}

}  // namespace

Tensor redistribute(const Tensor& x, const Layout& target) {
  require(x.is_shard() && x.layout().mesh() == target.mesh() && x.shape() == target.shape(), "redistribute",
          "found {}, target {}", describe(x), to_string(target));
  if (x.layout() == target) return x;
  const InlineVector<int> ended = ended_partials(x.layout(), target);
  const auto other_kind = [&](int a) { return !(x.layout().placement(a) == x.layout().placement(ended[0])); };
  if (std::any_of(ended.begin(), ended.end(), other_kind)) {
    // Reductions of several kinds happen one after the other, each with its own gradient.
    return redistribute(redistribute(x, first_reduction(x.layout(), target)), target);
  }
  const CommScope scope("redistribute");
  Tensor y = move(x, target);
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

namespace {

/// The source alone can tell whether its tensor fits: it tells the others, and all of them throw, or none.
void check_scattered(const Tensor& global, const Layout& layout, DType type, int source) {
  const Mesh& mesh = layout.mesh();
  require(source >= 0 && source < mesh.size(), "scatter", "found source {}, expected a rank of {}", source,
          to_string(mesh));
  const bool fits = mesh.rank() != source ||
                    (global.defined() && global.shape() == layout.shape() && global.dtype() == type);
  const std::string found = mesh.comm().broadcast_text(fits     ? ""
                                                       : global ? describe(global)
                                                                : "no tensor",
                                                       source);
  require(found.empty(), "scatter", "found {} on rank {}, expected {} {}", found, source, name_of(type),
          to_string(layout));
}

}  // namespace

Tensor scatter(const Tensor& global, const Layout& target, DType type, int source) {
  const CommScope scope("scatter");
  const Mesh& mesh = target.mesh();
  const Layout layout = target.reduced();
  check_scattered(global, layout, type, source);
  constexpr int tag = 77;
  Tensor local = Tensor::empty(layout, type);
  // The source sends each rank its box, cut out by a local plan, one after the other.
  auto cut = [&](int rank) {
    const ExchangePlan plan(layout.shape(), need_of(layout, rank));
    const Tensor part = Tensor::empty(plan.destination_shape(), type);
    plan.forward(global.raw(), part.raw(), type);
    return part;
  };
  Communicator& comm = mesh.comm();
  if (mesh.rank() == source) {
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Tensor part = cut(rank);
      if (rank == source) {
        local.copy_from(part.as_plain(local.local_shape()));
      } else if (part.local_count() > 0) {
        device_send(comm, part.raw(), part.local_count(), type, rank, tag).wait();
      }
    }
  } else if (local.local_count() > 0) {
    device_receive(comm, local.raw(), local.local_count(), type, source, tag).wait();
  }
  return redistribute(local, target);
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
