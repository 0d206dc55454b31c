#pragma once

#include <vector>

#include "solver/tensor/tensor.hpp"

// Internal to attention: what each mesh axis does.
namespace tessera::attention_detail {

struct AxisPlan {
  Layout q, k, v;  ///< layouts to which the operands are brought first
  Layout out;
  Layout dq, dk, dv;            ///< of the gradients
  std::vector<int> ring_axes;   ///< both sides sharded on tokens
  std::vector<int> merge_axes;  ///< keys sharded on tokens, queries whole
};

/// q, k, v are shard tensors of one mesh.
AxisPlan plan_axes(const Tensor& q, const Tensor& k, const Tensor& v);

/// Brings the mask to where the rows of q's tokens are local, or makes it whole.
Layout mask_layout(const Layout& mask, const Layout& q);

}  // namespace tessera::attention_detail
