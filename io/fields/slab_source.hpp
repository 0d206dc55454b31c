#pragma once

#include <string>
#include <vector>

#include "io/agree.hpp"
#include "io/fields/field_source.hpp"
#include "io/fields/file_cache.hpp"
#include "io/fields/slab.hpp"

namespace tessera {

/// A dataset that holds one or more channels, and what its dimensions mean; -1 for a meaning that no
/// dimension has.
struct StoredVariable {
  std::string path;
  Shape shape;
  int sample = -1;
  int time = -1;
  std::vector<int> grid;  ///< dimension of each grid axis; -1 repeats the value along the axis
  int component = -1;  ///< dimension of the components; the first of two for a tensor stored as (..., D, D)
  int component_dims = 0;  ///< 0, 1 or 2
  Shape index;             ///< the index taken along each dimension that has no meaning (0 elsewhere)
  Packing packing;
};

/// A FieldSource whose channels are components of datasets. Derived classes find out what the files hold.
class SlabSource : public FieldSource {
 public:
  SlabSource(CommPtr comm, BadValuePolicy policy) : cache_(std::move(comm)), policy_(policy) {}

  void read(Index trajectory, Index step, std::span<const int> channels, const Box& box, float* out) override;
  void read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
            double* out) override;

 protected:
  /// Where a step of a trajectory lies.
  struct Place {
    std::size_t file = 0;
    Index sample = 0;
    Index step = 0;
  };
  struct StoredFile {
    std::string path;
    std::vector<StoredVariable> variables;
  };

  virtual Place place(Index trajectory, Index step) const = 0;
  /// Runs `body` so that all ranks of a collective source fail alike.
  template <typename Body>
  void together(const Body& body) {
    if (cache_.comm()) {
      run_together(*cache_.comm(), body);
    } else {
      body();
    }
  }

  std::vector<StoredFile> files_;
  std::vector<std::size_t> variable_of_channel_;

 private:
  template <typename T>
  void read_channels(Index trajectory, Index step, std::span<const int> channels, const Box& box, T* out);
  template <typename T>
  void read_run(const hdf5::Dataset& dataset, const StoredVariable& variable, const Place& at, const Box& box,
                Range components, Index channels, T* out);

  FileCache cache_;
  BadValuePolicy policy_;
};

}  // namespace tessera
