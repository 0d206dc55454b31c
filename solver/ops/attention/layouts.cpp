#include "solver/ops/attention/layouts.hpp"

#include "solver/ops/layout_builder.hpp"

namespace tessera::attention_detail {
namespace {

enum class Role { whole, batch, tokens, heads };

/// (B, *tokens, heads, d): what the axis cuts. The head size is never left cut.
Role role_of(const Layout& layout, int axis) {
  const Placement& p = layout.placement(axis);
  const int n = layout.shape().size();
  if (!p.is_shard() || p.dim == n - 1) return Role::whole;
  if (p.dim == 0) return Role::batch;
  return p.dim == n - 2 ? Role::heads : Role::tokens;
}

bool has_role(const Layout& layout, Role role) {
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    if (role_of(layout, a) == role) return true;
  }
  return false;
}

int dim_of(Role role, int dims) {
  return role == Role::batch ? 0 : dims - 2;
}

/// Who is brought to whom on one axis.
struct Decision {
  Role q = Role::whole;
  Role k = Role::whole;
  bool from_k = false;  ///< q takes k's cut points instead of the reverse
};

Decision decide(const Layout& q, const Layout& k, int axis) {
  const Role rq = role_of(q, axis), rk = role_of(k, axis);
  if (rq == Role::heads || rq == Role::batch) return {rq, rq, false};
  // q cuts heads or batch on another axis, if at all: then k follows there, and is whole here.
  const bool pairwise = rk == Role::heads || rk == Role::batch;
  if (pairwise)
    return rq == Role::whole && !has_role(q, rk) ? Decision{rk, rk, true} : Decision{rq, Role::whole, false};
  return {rq, rk, false};
}

}  // namespace

AxisPlan plan_axes(const Layout& q, const Layout& k, const Layout& v) {
  const Mesh& mesh = q.mesh();
  const int nq = q.shape().size(), nk = k.shape().size();
  Shape out_shape = q.shape();
  out_shape.back() = v.shape().back();
  LayoutBuilder tq(mesh, q.shape()), tk(mesh, k.shape()), tv(mesh, v.shape()), out(mesh, out_shape);
  LayoutBuilder dq(mesh, q.shape()), dk(mesh, k.shape()), dv(mesh, v.shape());
  AxisPlan plan;
  for (int a = 0; a < mesh.axes(); ++a) {
    const Decision d = decide(q, k, a);
    if (d.q == Role::tokens) {
      for (LayoutBuilder* b : {&tq, &out, &dq}) b->like(q, a);
    }
    if (d.k == Role::tokens) {
      for (LayoutBuilder* b : {&tk, &tv, &dk, &dv}) b->like(k, a);
    }
    if (d.q == Role::heads || d.q == Role::batch) {
      const Partition& cuts = d.from_k ? k.partition(a) : q.partition(a);
      for (LayoutBuilder* b : {&tq, &out, &dq}) b->shard(a, dim_of(d.q, nq), cuts);
      for (LayoutBuilder* b : {&tk, &tv, &dk, &dv}) b->shard(a, dim_of(d.k, nk), cuts);
    }
    if (d.q == Role::tokens && d.k == Role::tokens) plan.ring_axes.push_back(a);
    if (d.q == Role::whole && d.k == Role::tokens) {
      plan.merge_axes.push_back(a);
      dq.partial(a);
    }
    if (d.q == Role::tokens && d.k == Role::whole) {
      dk.partial(a);
      dv.partial(a);
    }
  }
  plan.q = tq.build();
  plan.k = tk.build();
  plan.v = tv.build();
  plan.out = out.build();
  plan.dq = dq.build();
  plan.dk = dk.build();
  plan.dv = dv.build();
  return plan;
}

int axis_for_heads(const AxisPlan& plan, const AttentionOptions& options) {
  if (options.method == AttentionMethod::ring || plan.ring_axes.empty()) return -1;
  const int heads_dim = plan.q.shape().size() - 2;
  if (plan.q.is_sharded(heads_dim)) return -1;
  const bool automatic = options.method == AttentionMethod::automatic;
  if (automatic && options.mask && options.mask.is_shard()) return -1;
  int best = -1;
  for (const int a : plan.ring_axes) {
    const int size = plan.q.mesh().axis_size(a),
              least = automatic && !options.causal ? kLeastRanksForHeads : 2;
    if (size < least || plan.q.shape()[heads_dim] % size != 0) continue;
    if (best < 0 || size > plan.q.mesh().axis_size(best)) best = a;
  }
  return best;
}

Layout cut_heads(const Layout& layout, int axis) {
  const int heads_dim = layout.shape().size() - 2;
  return layout.with_placement(axis, Shard(heads_dim),
                               Partition::even(layout.shape()[heads_dim], layout.mesh().axis_size(axis)));
}

Layout mask_layout(const Layout& mask, const Layout& q) {
  LayoutBuilder target(mask.mesh(), mask.shape());
  Index inner = 1;  // tokens behind the first token dimension
  bool rows_follow = mask.shape()[2] > 1;
  for (int d = 2; d < q.shape().size() - 2; ++d) {
    inner *= q.shape()[d];
    rows_follow = rows_follow && !q.is_sharded(d);
  }
  for (int a = 0; a < mask.mesh().axes() && rows_follow; ++a) {
    if (mask.placement(a) != Shard(2) || q.placement(a) != Shard(1)) continue;
    std::vector<Index> cuts(q.partition(a).cuts().begin(), q.partition(a).cuts().end());
    for (Index& cut : cuts) cut *= inner;
    target.shard(a, 2, Partition(std::move(cuts)));
  }
  return target.build();
}

}  // namespace tessera::attention_detail
