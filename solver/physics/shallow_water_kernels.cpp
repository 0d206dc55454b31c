// Compiled without contraction to fused multiply-adds, which a compiler may apply in one version of a loop
// and not in another: a cell gets the same bits wherever it lies in a tile, hence on every partition.
//
// Bytes moved per cell and step in f64, each array counted once per stage:
//     first stage   24 + 8 read, 24 written
//     second stage  24 + 8 + 24 read, 24 written         136 in all: kWaterNumbersMoved x 8
// The ghosts are a thin frame, and what lies between stays in a scratch of about 45 KiB per tile.
//
// Vector instructions per 8 cells (f64, 512 bits) and stage, loads and stores not counted: 88 for 8 slopes,
// 186 for 2 faces, 50 to load and update cells; in the second stage 15 more for their rate. Among them are 4
// roots and 3 divisions of 16 to 18 cycles. At two a cycle and 2.9 GHz that is 7 ns per cell and stage, 15 a
// step, where the bytes take 9 at 15 GB/s: arithmetic is the limit, not memory.
#include "solver/physics/shallow_water_kernels.hpp"

#include <algorithm>

#include "solver/physics/shallow_water_tile.hpp"

namespace tessera::detail {
namespace {

// Row blocks x tiles of a region: as many blocks as there are threads to run them.
struct Blocks {
  Index tiles, blocks;
};
Blocks blocks_of(Index rows, Index columns, Index tile) {
  const Index tiles = (columns + tile - 1) / tile;
  const Index threads = Kokkos::DefaultExecutionSpace().concurrency();
  return {tiles,
          std::clamp<Index>((threads + tiles - 1) / std::max<Index>(tiles, 1), 1, std::max<Index>(rows, 1))};
}

template <typename Real>
double run_stage(const WaterStage& stage, Range rows, Range columns, DType type) {
  const Blocks split = blocks_of(rows.size(), columns.size(), kTile<Real>);
  const Tile<Real> prototype{static_cast<const Real*>(stage.from),
                             static_cast<const Real*>(stage.ghosts),
                             static_cast<const Real*>(stage.bed),
                             static_cast<const Real*>(stage.old),
                             static_cast<Real*>(stage.to),
                             static_cast<Scratch<Real>*>(stage.scratch),
                             stage.ny,
                             stage.nx,
                             0,
                             0,
                             {stage.wall_rows[0], stage.wall_rows[1]},
                             {stage.wall_columns[0], stage.wall_columns[1]},
                             WaterConstants<Real>(stage, type)};
  double fastest = 0;
  Kokkos::parallel_reduce(
      "shallow_water_stage", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, split.blocks * split.tiles),
      KOKKOS_LAMBDA(Index item, double& best) {
        Tile<Real> tile = prototype;
        const Index block = item / split.tiles, at = item % split.tiles;
        const Index length = columns.hi - columns.lo, height = rows.hi - rows.lo;
        tile.first = columns.lo + length * at / split.tiles;
        tile.width = columns.lo + length * (at + 1) / split.tiles - tile.first;
        tile.s += item;
        const Index lo = rows.lo + height * block / split.blocks,
                    hi = rows.lo + height * (block + 1) / split.blocks;
        best = larger(best, static_cast<double>(tile.run(lo, hi)));
      },
      Kokkos::Max<double>(fastest));
  return std::max(fastest, 0.0);
}

template <typename Real>
double rate_of(const Real* state, Index cells, const WaterConstants<Real> k) {
  double fastest = 0;
  Kokkos::parallel_reduce(
      "shallow_water_rate", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, cells),
      KOKKOS_LAMBDA(Index i, double& best) {
        best = larger(best, static_cast<double>(k.rate(state[3 * i], state[3 * i + 1], state[3 * i + 2])));
      },
      Kokkos::Max<double>(fastest));
  return std::max(fastest, 0.0);
}

template <typename Real>
void to_velocity(Real* state, Index cells, Real dry) {
  Kokkos::parallel_for(
      "shallow_water_velocity", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, cells),
      KOKKOS_LAMBDA(Index i) {
        const Real h = state[3 * i];
        state[3 * i + 1] = h <= dry ? Real(0) : state[3 * i + 1] / h;
        state[3 * i + 2] = h <= dry ? Real(0) : state[3 * i + 2] / h;
      });
}

template <typename Real>
double depth_sum(const Real* state, Index cells) {
  double sum = 0;
  Kokkos::parallel_reduce(
      "shallow_water_volume", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, cells),
      KOKKOS_LAMBDA(Index i, double& part) { part += static_cast<double>(state[3 * i]); }, sum);
  return sum;
}

}  // namespace

double water_depth_sum(const void* state, Index cells, DType type) {
  if (cells == 0) return 0;
  return type == DType::f64 ? depth_sum(static_cast<const double*>(state), cells)
                            : depth_sum(static_cast<const float*>(state), cells);
}

double water_depth_tolerance(double dry, DType type) {
  return type == DType::f64 ? 1e-3 * dry : dry;
}

std::size_t water_scratch_bytes(Index ny, Index nx, DType type) {
  if (ny == 0 || nx == 0) return 0;
  const bool wide = type == DType::f64;
  const Index tiles = blocks_of(ny, nx, wide ? kTile<double> : kTile<float>).tiles;
  // A region of the box may be cut otherwise, but into no more pieces than this.
  const Index items = std::min<Index>(tiles * ny, tiles + Kokkos::DefaultExecutionSpace().concurrency());
  return static_cast<std::size_t>(items) * (wide ? sizeof(Scratch<double>) : sizeof(Scratch<float>));
}

double run_water_stage(const WaterStage& stage, Range rows, Range columns, DType type) {
  if (rows.empty() || columns.empty()) return 0;
  return type == DType::f64 ? run_stage<double>(stage, rows, columns, type)
                            : run_stage<float>(stage, rows, columns, type);
}

double water_rate(const void* state, Index cells, const WaterStage& constants, DType type) {
  if (cells == 0) return 0;
  return type == DType::f64
             ? rate_of(static_cast<const double*>(state), cells, WaterConstants<double>(constants, type))
             : rate_of(static_cast<const float*>(state), cells, WaterConstants<float>(constants, type));
}

void momentum_to_velocity(void* state, Index cells, double dry, DType type) {
  if (cells == 0) return;
  if (type == DType::f64) return to_velocity(static_cast<double*>(state), cells, dry);
  to_velocity(static_cast<float*>(state), cells, static_cast<float>(dry));
}

}  // namespace tessera::detail
