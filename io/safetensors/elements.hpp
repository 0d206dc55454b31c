#pragma once

#include <cstddef>
#include <string_view>

#include "parallel/dtype.hpp"
#include "parallel/inline_vector.hpp"

namespace tessera {

/// Bytes of an element of a safetensors type; 0 for a type that cannot be read.
std::size_t safetensors_width(std::string_view dtype);
/// "F32", "BF16", ...
std::string_view safetensors_name(DType type);
/// Converts n stored elements of `dtype` to `type`; bits are kept where both are the same, rounding is to
/// nearest even.
void convert_elements(std::string_view dtype, const char* from, DType type, char* to, Index n);

}  // namespace tessera
