#pragma once

#include "app/bench/limits.hpp"

// One run of the library's own kernels, without anything of Tessera around them.
namespace tessera::bench {

/// C = A B of n x n matrices, B in the library's own order. f32, or bf16 with an f32 result.
std::function<void()> library_gemm(Index n, DType type);

/// Forward, backward data and backward weights of one convolution.
std::function<void()> library_conv(const ConvShape& shape);

}  // namespace tessera::bench
