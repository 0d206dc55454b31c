#pragma once

#include <filesystem>

#include "io/fields/field_source.hpp"

namespace tessera::bench {

/// Standard normal numbers for every cell, channel and step, the same on any mesh: trajectories of two steps,
/// the first one the input and the second one the target of a training step.
class RandomFields : public FieldSource {
 public:
  RandomFields(const Shape& grid, Index channels, Index trajectories);

  void read(Index trajectory, Index step, std::span<const int> channels, const Box& box, float* out) override;
  void read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
            double* out) override;

 private:
  template <typename T>
  void fill(Index trajectory, Index step, std::span<const int> channels, const Box& box, T* out) const;
};

/// Writes all values of a source to an HDF5 file with the datasets `input` and `target`, (trajectories,
/// *grid, channels). Collective.
void save_fields(const CommPtr& group, FieldSource& source, const std::filesystem::path& path);

}  // namespace tessera::bench
