#pragma once

#include <cstddef>

#include "parallel/box.hpp"
#include "parallel/dtype.hpp"

namespace tessera::detail {

/// Ghost cells on each side of a box.
inline constexpr Index kWaterGhosts = 2;
/// Numbers that a time step reads and writes per cell; shallow_water_kernels.cpp counts them.
inline constexpr int kWaterNumbersMoved = 17;

/// What a Runge-Kutta stage reads and writes, all in device memory, ny x nx being the local box:
///
///     from, old, to (ny, nx, 3), `to` not `from`      bed (ny + 4, nx + 4)
///     ghosts: rows below the box and above it (2, nx + 4, 3 each), columns left and right (ny, 2, 3 each)
///
///     to = keep * old + (1 - keep) * (from + dt L(from)),  and without `old`, to = from + dt L(from)
struct WaterStage {
  const void* from = nullptr;
  const void* ghosts = nullptr;
  const void* bed = nullptr;
  const void* old = nullptr;
  void* to = nullptr;
  void* scratch = nullptr;
  Index ny = 0;
  Index nx = 0;
  Index wall_rows[2] = {0, 0};     // ghost rows that lie beyond a wall, below and above the box
  Index wall_columns[2] = {0, 0};  // ghost columns, left and right
  double keep = 0;
  double dt = 0;
  double over_dx = 0;
  double over_dy = 0;
  double gravity = 0;
  double theta = 0;  // of the limiter
  double dry = 0;    // depth
};

/// Bytes of scratch memory that stages over boxes of ny x nx need. What is in it does not matter, but should
/// be numbers: vectors reach a little beyond a tile's cells, and processors are slow with denormal ones.
std::size_t water_scratch_bytes(Index ny, Index nx, DType type);

/// Updates the cells of `rows` x `columns` (local indices) and returns the largest (|u| + c) / dx + (|v| + c)
/// / dy among them, infinity if a depth is negative or a value not finite.
double run_water_stage(const WaterStage& stage, Range rows, Range columns, DType type);

/// The same rate of a state (cells, 3) in device memory.
double water_rate(const void* state, Index cells, const WaterStage& constants, DType type);

/// h, hu, hv -> h, u, v in place, 0 where the depth is at most `dry`.
void momentum_to_velocity(void* state, Index cells, double dry, DType type);

/// Sum of the depths of a state.
double water_depth_sum(const void* state, Index cells, DType type);

/// Depths from a little below 0 (round-off) count as 0; lower ones are an error. m.
double water_depth_tolerance(double dry, DType type);

}  // namespace tessera::detail
