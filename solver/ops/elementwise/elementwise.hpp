#pragma once

#include "solver/tensor/tensor.hpp"

namespace tessera {

// Operators on each element by itself. Any layout; a Partial operand is reduced first. The result has the
// layout of the operand, or, of two, that of the larger one.

Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
Tensor elu(const Tensor& x);
Tensor gelu(const Tensor& x);       ///< exact: x (1 + erf(x / sqrt 2)) / 2
Tensor gelu_tanh(const Tensor& x);  ///< x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
Tensor silu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor softplus(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor abs(const Tensor& x);  ///< derivative 0 at 0
Tensor neg(const Tensor& x);

Tensor add(const Tensor& x, double scalar);
Tensor mul(const Tensor& x, double scalar);
Tensor clamp(const Tensor& x, double low, double high);  ///< derivative 1 inside, bounds included

/// The values in another floating type (f32, f64, bf16: rounded to nearest even); the gradient comes back in
/// the type of x. x itself where it has that type.
Tensor cast(const Tensor& x, DType type);

// Two operands, broadcast against each other as in NumPy. Operands with different cut points or placements
// are redistributed to those of the larger operand; a plain operand counts as Replicate.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);  ///< NaN wins; equal operands share the gradient evenly
Tensor minimum(const Tensor& a, const Tensor& b);

// Comparisons of floating operands: u8 tensors of 0 and 1, outside the history.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);

/// a where the condition (u8) is not 0, b elsewhere; the three broadcast against each other.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

}  // namespace tessera
