#pragma once

#include <dnnl.hpp>

#include "parallel/dtype.hpp"
#include "parallel/inline_vector.hpp"

// Internal to solver/ops: shared pieces of the operators that oneDNN computes on host-accessible memory.
namespace tessera::onednn {

dnnl::engine& engine();
dnnl::stream& stream();
dnnl::memory::data_type data_type(DType type);
dnnl::memory::dims dims(const Shape& shape);
/// True for the element types that oneDNN computes with here (f32, bf16); f64 takes the Kokkos reference
/// kernels.
bool supports(DType type);
/// Whether this processor multiplies bf16 faster than f32: some have the instructions at half the rate of
/// f32's, or not at all, and then bf16 operands are better widened. Measured at the first call; the
/// environment's TESSERA_BF16=native or widened decides instead. Ranks that answer differently get results
/// that differ in rounding. Throws (usage) where `native` is asked for and not there.
bool multiplies_bf16_faster();

}  // namespace tessera::onednn
