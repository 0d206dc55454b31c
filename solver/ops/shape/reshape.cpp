#include <numeric>

#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

/// Dimensions [in_lo, in_hi) of the old shape and [out_lo, out_hi) of the new one that hold the same
/// elements.
struct Group {
  int in_lo, in_hi, out_lo, out_hi;
};

std::vector<Group> groups_of(const Shape& in, const Shape& out) {
  std::vector<Group> groups;
  int i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    Group g{i, i, o, o};
    Index a = 1, b = 1;
    if (i < in.size()) a = in[i++];
    if (o < out.size()) b = out[o++];
    while (a != b && (i < in.size() || o < out.size())) {  // a shape without elements may end unequal
      if (a < b && i < in.size()) {
        a *= in[i++];
      } else if (o < out.size()) {
        b *= out[o++];
      } else {
        a *= in[i++];
      }
    }
    g.in_hi = i;
    g.out_hi = o;
    groups.push_back(g);
  }
  return groups;
}

/// First dimension in [lo, hi) with more than one index, or lo.
int leading(const Shape& shape, int lo, int hi) {
  for (int d = lo; d < hi; ++d) {
    if (shape[d] != 1) return d;
  }
  return lo;
}

Index product(const Shape& shape, int lo, int hi) {
  Index n = 1;
  for (int d = lo; d < hi; ++d) n *= shape[d];
  return n;
}

/// What one sharded axis becomes: the cut points needed before the view, and the dimension and cut points
/// after it.
struct Move {
  bool possible = false;
  int out_dim = 0;
  std::vector<Index> before, after;
};

Move move_of(const Shape& in, const Shape& out, const std::vector<Group>& groups, int dim,
             const Partition& partition) {
  Move move;
  for (const Group& g : groups) {
    if (dim < g.in_lo || dim >= g.in_hi || g.out_lo == g.out_hi) continue;
    // Without elements the two sides need not agree.
    if (product(in, g.in_lo, g.in_hi) != product(out, g.out_lo, g.out_hi)) return move;
    if (product(in, g.in_lo, dim) != 1) return move;  // not the leading one: rows of several ranks interleave
    move.out_dim = leading(out, g.out_lo, g.out_hi);
    const Index inner_in = product(in, dim + 1, g.in_hi);
    const Index inner_out = product(out, move.out_dim + 1, g.out_hi);
    if (inner_in == 0 || inner_out == 0) return move;
    for (Index c : partition.cuts()) {
      // Cut points fall on whole rows of both shapes.
      const Index unit = inner_out / std::gcd(inner_in, inner_out);
      const Index whole = c == partition.extent() ? c : c / unit * unit;
      move.before.push_back(whole);
      move.after.push_back(whole * inner_in / inner_out);
    }
    move.possible = true;
    return move;
  }
  return move;
}

/// Pending axes stay pending.
std::optional<Sharding> reshape_rule(std::span<const Tensor> operands, const std::any& parameters) {
  const Shape& from = operands[0].shape();
  const auto shape = std::any_cast<Shape>(parameters);
  const std::vector<Group> groups = groups_of(from, shape);
  Layout before = operands[0].layout();
  Layout after = Layout::replicated(before.mesh(), shape);
  for (int a = 0; a < before.mesh().axes(); ++a) {
    const Placement& p = before.placement(a);
    if (p.is_partial()) after = after.with_placement(a, p);
    if (!p.is_shard()) continue;
    const Move move = move_of(from, shape, groups, p.dim, before.partition(a));
    if (!move.possible || after.is_sharded(move.out_dim)) {
      before = before.with_placement(a, Replicate());
      continue;
    }
    before = before.with_placement(a, p, Partition(move.before));
    after = after.with_placement(a, Shard(move.out_dim), Partition(move.after));
  }
  return Sharding{{before}, after};
}

const Operator& entry(const char* name, const char* signature, std::vector<Cut> cuts) {
  return register_operator({.name = name,
                            .signature = signature,
                            .family = "shape",
                            .cuts = std::move(cuts),
                            .rule = reshape_rule});
}
const Operator& kReshape = entry("reshape", "reshape(x, shape)",
                                 {{"leading of its group"}, {"merged behind another", Moves::gather}});
const Operator& kUnsqueeze = entry("unsqueeze", "unsqueeze(x, dim)", {{"any"}});
const Operator& kSqueeze = entry("squeeze", "squeeze(x, dim)", {{"dim", Moves::gather}, {"other"}});

Tensor reshape(const Operator& op, const Tensor& x_in, const Shape& shape) {
  const OperatorCall call(op, {x_in}, shape);
  const Tensor& x = call[0];
  Tensor y = x.is_shard() ? x.with_layout(call.result_layout()) : x.as_plain(shape);
  record(call.name(), {x}, y,
         [old_shape = x.shape(), layout = x.is_shard() ? x.layout().reduced() : Layout()](const Tensor& g) {
           return Gradients{layout ? g.with_layout(layout) : g.as_plain(old_shape)};
         });
  return y;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  require(count(shape) == count(x.shape()), "reshape", "found {}, expected the element count of {}",
          to_string(shape), to_string(x.shape()));
  return reshape(kReshape, x, shape);
}

Tensor unsqueeze(const Tensor& x, int dim) {
  Shape shape = x.shape();
  const int own = dim < 0 ? dim + x.ndim() + 1 : dim;
  if (own < 0 || own > x.ndim()) {
    fail(ExitCode::usage, "unsqueeze", "dimension {} outside {}", dim, to_string(shape));
  }
  shape.insert(own, 1);
  return reshape(kUnsqueeze, x, shape);
}

Tensor squeeze(const Tensor& x, int dim) {
  Shape shape = x.shape();
  const int own = checked_dim(x, dim, "squeeze");
  require(shape[own] == 1, "squeeze", "found extent {} of dimension {}, expected 1", shape[own], own);
  shape.erase(own);
  return reshape(kSqueeze, x, shape);
}

}  // namespace tessera
