#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/mesh.hpp"

// The arithmetic of mesh axes, without ranks to talk to.
namespace tessera {

/// The axes with the one size -1 replaced by what is left of `ranks`. Throws (usage), with both numbers,
/// where the product is not `ranks`.
std::vector<MeshAxis> resolved_axes(std::span<const MeshAxis> axes, int ranks);
/// "(ddp: 2, domain: -1)".
std::string to_string(std::span<const MeshAxis> axes);

}  // namespace tessera
