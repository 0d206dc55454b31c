#pragma once

#include "tests/property/draw.hpp"

namespace tessera::property {

/// One of the meshes of one to three axes over all ranks, made of every way of writing their number as a
/// product. Collective the first time.
Mesh draw_mesh(Random& random);

/// A layout on the mesh of `draw`: each mesh axis cuts one of `dims` that no other cuts (evenly, by chunks,
/// at random, with empty parts, or all in one part), is Replicate, or, if `partial`, leaves a reduction
/// pending.
Layout draw_layout(Draw& draw, const Shape& shape, std::vector<int> dims, bool partial);

/// One per operand; undefined for a plain one. Sometimes several operands of one shape get the same layout.
std::vector<Layout> draw_layouts(Draw& draw, const OperatorCase& c);

}  // namespace tessera::property
