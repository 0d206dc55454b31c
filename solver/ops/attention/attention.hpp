#pragma once

#include <optional>

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// How ranks that cut the tokens of both q and k share the work. `heads` exchanges tokens for heads before
/// and back after (DeepSpeed-Ulysses), one mesh axis, the heads being a multiple of its size; else it is the
/// ring. `automatic` takes heads where that moves half as much or less (from 4 ranks on), or where causality
/// would leave the first ranks of the ring idle, and the mask is not sharded.
enum class AttentionMethod { automatic, ring, heads };

struct AttentionOptions {
  std::optional<double> scale = {};  ///< of the scores; 1 / sqrt(d) if absent
  bool causal = false;               ///< query i sees keys j <= i, by global row-major token index
  /// (B | 1, heads | 1, Nq | 1, Nk | 1) over flattened global tokens: u8, where 0 hides a key, or floating,
  /// added to the scores. Plain, or sharded (then usually on Nq as q is). Takes no gradient.
  Tensor mask = {};
  AttentionMethod method = AttentionMethod::automatic;
};

/// out (B, *tokens_q, heads, dv) = softmax(scale q k^T + mask) v, with q (B, *tokens_q, heads, d), k (B,
/// *tokens_k, heads, d), v (B, *tokens_k, heads, dv). Tokens keep their grid shape; q and k may have
/// different ones. A query that sees no key gives zeros. torch.nn.functional.scaled_dot_product_attention,
/// with heads after tokens.
///
/// Layouts, on each mesh axis (cut points uneven or empty; a plain tensor counts as Replicate):
///   q and k, v sharded on tokens    -> ring attention over all such axes together: key/value blocks travel
///   round, the queries
///                                      stay; backward uses the global output and log-sum-exp, and dK, dV
///                                      travel with the blocks
///   q sharded on tokens, k, v whole -> local; dK, dV are Partial
///   q whole, k, v sharded on tokens -> each rank attends to its keys; maxima, sums and outputs are merged;
///   out is Replicate heads or batch sharded          -> local; k, v are brought to q's cut points, or q to
///   theirs if it is whole
/// Memory is linear in the number of tokens; sums, maxima and outputs are accumulated in f32 (f64 for f64).
/// Throws where sizes do not fit.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

}  // namespace tessera
