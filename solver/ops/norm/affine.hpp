#pragma once

#include "solver/ops/registry/operator_call.hpp"

// Internal to the normalisations.
namespace tessera::norm {

/// Weight and bias as the kernels need them: this rank's part, in `type`, ones and zeros where undefined.
struct Affine {
  Tensor weight,
      bias;  ///< part of the history: what a normalisation records as its inputs, possibly undefined
  Tensor local_weight, local_bias;  ///< plain, in the kernels' type
  Layout gradient;                  ///< layout of both gradients
  Shape shape;
};

/// Parameters of a normalisation's rule.
struct NormParameters {
  int trailing = 1;             ///< dimensions of x that weight and bias have
  bool whole_channels = false;  ///< the last dimension may not be cut
};

/// Registers a normalisation: operands x, weight, bias and, possibly, a residual.
const Operator& normalisation(const char* name, const char* signature, std::vector<Cut> cuts);

/// Throws naming `op` where weight or bias are not of this shape.
void check_affine(const char* op, const Shape& shape, const Tensor& weight, const Tensor& bias);

/// Weight and bias of a call; `shape` are the trailing dimensions of x, those of weight and bias.
Affine make_affine(const OperatorCall& call, const Shape& shape);

/// The type that the kernels compute in: f64 for f64, else f32.
inline DType compute_type(DType type) {
  return type == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace tessera::norm
