#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// The same global tensor under another layout of the same mesh and shape: any pair of placements and cut
/// points, by the collectives and messages of redistribution_steps(). The gradient comes back laid out as
/// `x`.
Tensor redistribute(const Tensor& x, const Layout& target);
/// Partial axes reduced; `x` itself if there are none.
Tensor reduce_partial(const Tensor& x);

/// A plain tensor that all ranks hold alike, seen as Replicate on the mesh. Its gradient is the sum over the
/// mesh.
Tensor promote(const Tensor& x, const Mesh& mesh);

/// Cuts the global tensor that rank `source` of the mesh holds (undefined elsewhere) into boxes. Collective;
/// every rank passes the layout, so no shape is negotiated. Not differentiable (the result is a leaf).
Tensor scatter(const Tensor& global, const Layout& layout, DType type, int source = 0);
/// This rank's part, given by itself. The gradient is plain and local.
Tensor from_local(const Tensor& local, const Layout& layout);
/// This rank's part as a plain tensor. The gradient is taken to be laid out as `x`.
Tensor to_local(const Tensor& x);
/// The whole tensor, plain, on every rank.
Tensor full_tensor(const Tensor& x);

}  // namespace tessera
