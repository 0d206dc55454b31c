#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// exp(x) / sum exp(x), and its logarithm, along one dimension (negative counts from the end), computed from
/// the largest element down. Any layout, which the result keeps. Along a sharded dimension two numbers per
/// row are reduced over its mesh axis, the maximum and the sum; one in the backward pass.
Tensor softmax(const Tensor& x, int dim);
Tensor log_softmax(const Tensor& x, int dim);

}  // namespace tessera
