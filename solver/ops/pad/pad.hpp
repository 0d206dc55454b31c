#pragma once

#include "parallel/box.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera {

enum class PadMode : std::uint8_t { constant, reflect, replicate, periodic };

/// Widens dimension d by lo[d] elements below and hi[d] above; negative numbers crop. Any layout; Partial is
/// reduced first. Interior cut points move by lo, so a rank keeps the elements that it owns and the ranks at
/// the ends take the padding; a rank without elements stays without. `value` is what constant padding reads.
/// Throws (usage) where nothing is left or a reflection is longer than the axis less one.
Tensor pad(const Tensor& x, const Shape& lo, const Shape& hi, PadMode mode = PadMode::constant,
           double value = 0);

/// The elements of x inside `box`, as a tensor of its shape. The ranks keep what they own of it, or, if
/// `target` is given (same mesh, shape of the box, no Partial), hold it under that layout. Throws (usage)
/// where the box leaves the tensor.
Tensor crop(const Tensor& x, const Box& box, const Layout& target = {});

}  // namespace tessera
