#pragma once

#include <cstdint>

#include "solver/physics/shallow_water.hpp"

namespace tessera {

/// Shapes of the initial surface.
enum class WaterStart : std::uint8_t {
  lake,          ///< at rest, surface at `level`
  planar_dam,    ///< `inside` below the position along `axis`, `level` above it
  circular_dam,  ///< `inside` within `radius` of the middle, `level` outside
  bumps,         ///< `level` plus Gaussian bumps at random positions
  modes,         ///< `level` plus a random smooth sum of modes of low wavenumber
};

/// An initial state at rest. All elevations are those of the surface above the datum (m); the depth is what
/// is above the bed. Random numbers depend on (seed, trajectory) and global indices alone.
struct WaterStartOptions {
  WaterStart kind = WaterStart::lake;
  double level = 1;         ///< m
  double inside = 2;        ///< dams: surface behind the dam, m
  char axis = 'x';          ///< planar dam: the axis it lies across
  double position_y = 0.5;  ///< dams: fraction of the length
  double position_x = 0.5;
  double radius = 0.2;  ///< circular dam: m
  double jitter =
      0;          ///< dams: position and radius move at random by up to this fraction of length and radius
  int count = 3;  ///< bumps
  double amplitude =
      0.1;  ///< bumps: largest height, each is between half of it and it; modes: standard deviation; m
  double width = 0.1;  ///< bumps: standard deviation, each is between this and 1.5 times it; m
  int max_wavenumber =
      4;  ///< modes: waves per length along each axis; half waves where the axis is not periodic
  std::uint64_t seed = 0;
  std::uint64_t trajectory = 0;
};

/// Throws (usage) and names the option that is out of range.
void validate(const WaterStartOptions& options);

/// Sets the state and time 0.
void set_initial_state(ShallowWater& solver, const WaterStartOptions& options);

}  // namespace tessera
