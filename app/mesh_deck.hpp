#pragma once

#include <optional>

#include "io/deck/deck.hpp"
#include "parallel/layout.hpp"

namespace tessera {

/// Keys of the section `mesh`: replicas, ranks per grid axis and cut points; `may_move`: these may be
/// measured.
void describe_mesh(Section& section, bool may_move);

/// Names and sizes of the mesh's axes for a number of ranks, and the cut points of every grid axis (of one
/// part where the mesh has no axis for it): what make_mesh and grid_layout make of the deck, without ranks to
/// talk to. Same errors.
std::vector<MeshAxis> mesh_axes(const Deck& deck, int ranks);
std::vector<Partition> grid_cuts(const Deck& deck, std::span<const MeshAxis> axes, const Shape& grid,
                                 const Shape& unit);

/// The mesh (ddp, domain axes) over all ranks. Domain axes are called "domain", or "domain_0", "domain_1",
/// ... if several grid axes are cut. Throws (usage), with the place in the deck, where the product does not
/// fit the ranks.
Mesh make_mesh(const Deck& deck, const CommPtr& world);

/// How (1, *grid, 1) is cut over a domain mesh: axis i of the mesh cuts grid axis i. Even and weighted cut
/// points are rounded to multiples of `unit[i]` cells (a model's patch). Measured ones start even.
Layout grid_layout(const Deck& deck, const Mesh& domain, const Shape& grid, const Shape& unit);

/// When cut points are to follow measured times: of the axes whose partition is `measured`, the soonest.
struct MeasuredPartition {
  std::vector<bool> axes;  ///< by axis of the domain mesh
  Index after = 0;         ///< updates before cut points move for the first time
  Index every = 0;         ///< updates between later moves; 0: never again
};
/// Nothing where no partition is measured.
std::optional<MeasuredPartition> measured_partition(const Deck& deck, const Mesh& domain);

}  // namespace tessera
