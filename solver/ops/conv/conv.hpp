#pragma once

#include "solver/ops/window/window.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera {

/// Per grid axis; an empty vector means the default on every axis, one element the same on every axis.
struct ConvOptions {
  Shape stride = {};                       ///< default 1
  Shape padding_lo = {}, padding_hi = {};  ///< default 0; may be negative
  Shape dilation = {};                     ///< default 1
  Index groups = 1;
  InlineVector<Boundary> boundary = {};  ///< what the padding reads; default zero
};

struct ConvTransposeOptions {
  Shape stride = {};          ///< default 1
  Shape padding = {};         ///< crop on both sides; default 0
  Shape output_padding = {};  ///< outputs added at the high end; default 0
  Shape dilation = {};        ///< default 1
  Index groups = 1;
};

/// Convolution (cross-correlation, as in PyTorch) over 1, 2 or 3 grid axes:
///   y[b, j, co] = bias[co] + sum over t, ci of weight[co, ci, t] * x[b, j * stride - padding_lo + dilation *
///   t, group(co) + ci]
/// x (B, *grid, Cin), weight (Cout, Cin / groups, *kernel), bias (Cout) or undefined -> (B, *outputs, Cout),
/// all of one floating type, or x in bf16 beside weights and bias in f32, whose gradients stay f32 then. Any
/// layout of x that leaves its channels whole (sharded channels are gathered first, Partial is reduced);
/// weight and bias are plain or Replicate. The outputs' cut points follow the inputs' (Partition::strided).
/// Throws (usage) where shapes do not fit or no output is left.
Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options = {});

/// Transposed convolution: the adjoint of conv in x, plus a bias.
/// x (B, *grid, Cin), weight (Cin, Cout / groups, *kernel), bias (Cout) or undefined
///   -> (B, *((n - 1) * stride - 2 padding + dilation * (kernel - 1) + output_padding + 1), Cout). Cut
///   points: Partition::transposed.
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions& options = {});

}  // namespace tessera
