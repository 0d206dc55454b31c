#pragma once

#include "solver/ops/registry/operator.hpp"

namespace tessera {

// For rules written by hand.

/// The mesh of the first operand that is a shard tensor; an undefined one if all are plain.
Mesh mesh_of(std::span<const Tensor> operands);
/// How an operand lies on the mesh of its call: a plain one is Replicate.
Layout layout_on(const Mesh& mesh, const Tensor& operand);

/// Every operand stays as it is, cut or whole, with pending reductions done; plain ones stay plain. For
/// operators of one tensor, and of one tensor with weights that all ranks hold.
ShardRule keep_rule();
/// The same, but pending reductions stay pending: for operators that are linear and move elements only.
ShardRule keep_pending_rule();

/// The rule of an operator whose result at some indices is a sum, product or any other function of its
/// operands at the same indices, written as in einsum: names of dimensions, operands separated by commas,
/// `...` for any number of leading ones. Operands align at `...` as in NumPy, size 1 stretching.
///
///     "..., ... -> ..."                 elementwise, two operands
///     "... m k, ... k n -> ... m n"     matrix product
///     "n !c, n -> n"                    a class index per row: dimension c is made whole
///
/// On each mesh axis the largest operand that is cut decides which dimension is cut, and where; operands that
/// have the dimension take the same cut points, others become whole, the result is cut there, too, or, if it
/// does not have the dimension, pending (Partial sum). Throws (usage) where the text makes no sense.
ShardRule index_rule(std::string_view text);

}  // namespace tessera
