#pragma once

#include <vector>

#include "solver/ops/attention/attention.hpp"

// Internal to attention: what each mesh axis does.
namespace tessera::attention_detail {

struct AxisPlan {
  Layout q, k, v;               ///< layouts to which the operands are brought first
  Layout out;                   ///< of the local computation's output
  Layout dq, dk, dv;            ///< of the gradients
  std::vector<int> ring_axes;   ///< both sides sharded on tokens
  std::vector<int> merge_axes;  ///< keys sharded on tokens, queries whole
};

/// Layouts on one mesh; no pending axes.
AxisPlan plan_axes(const Layout& q, const Layout& k, const Layout& v);

/// AttentionMethod::automatic without causality gives the heads no axis of fewer ranks.
inline constexpr int kLeastRanksForHeads = 4;

/// The ring axis to be given to the heads instead, or -1.
int axis_for_heads(const AxisPlan& plan, const AttentionOptions& options);

/// `layout` of (B, *tokens, heads, d) with this axis cutting the heads evenly.
Layout cut_heads(const Layout& layout, int axis);

/// Brings the mask to where the rows of q's tokens are local, or makes it whole.
Layout mask_layout(const Layout& mask, const Layout& q);

}  // namespace tessera::attention_detail
