#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// y (..., Cout) = x (..., Cin) weight^T + bias; weight (Cout, Cin), bias (Cout) or undefined.
/// torch.nn.functional.linear.
///
/// Layouts, on each mesh axis:
///   x sharded on a leading dimension      -> y likewise; weight gradients are summed over the axis
///   x sharded on Cin                      -> y is Partial(sum); the bias is added once
///   x Replicate, weight sharded on Cout   -> y sharded on its last dimension
/// Other pairs bring the weight, or a replicated x, to one of these. A plain x meets a sharded weight as
/// Replicate.
///
/// Mixed precision: the product is computed in x's type (bf16: f32 accumulation); weight and bias may be f32
/// then, and their gradients stay f32. Throws where sizes do not fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace tessera
