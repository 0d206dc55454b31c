#pragma once

#include "solver/tensor/tensor.hpp"

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

/// x without pending sums, and on the mesh of its weight or bias if these have one.
Tensor prepared(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// x has been prepared; `shape` are its trailing dimensions, those of weight and bias.
Affine make_affine(const char* op, const Tensor& x, const Shape& shape, const Tensor& weight,
                   const Tensor& bias);

/// The type that the kernels compute in: f64 for f64, else f32.
inline DType compute_type(DType type) {
  return type == DType::f64 ? DType::f64 : DType::f32;
}

/// An output laid out as `like`.
inline Tensor empty(const Layout& layout, const Shape& shape, DType type) {
  return layout ? Tensor::empty(layout, type) : Tensor::empty(shape, type);
}

}  // namespace tessera::norm
