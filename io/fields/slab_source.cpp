#include "io/fields/slab_source.hpp"

#include <exception>

#include "io/strided_copy.hpp"

namespace tessera {

void SlabSource::read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
                      float* out) {
  read_channels(trajectory, step, channels, box, out);
}

void SlabSource::read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
                      double* out) {
  read_channels(trajectory, step, channels, box, out);
}

template <typename T>
void SlabSource::read_channels(Index trajectory, Index step, std::span<const int> channels, const Box& box,
                               T* out) {
  check_request(trajectory, step, channels, box);
  const Place at = place(trajectory, step);
  const StoredFile& stored = files_[at.file];
  const hdf5::File& file = cache_.get(stored.path);
  auto variable_of = [&](std::size_t i) {
    return variable_of_channel_[static_cast<std::size_t>(channels[i])];
  };
  together([&] {
    const hdf5::Group root = file.root();
    std::exception_ptr first_error;  // kept to the end: the other ranks count on this one in later transfers
    for (std::size_t i = 0, j = 0; i < channels.size(); i = j) {  // neighbouring components make one transfer
      j = i + 1;
      while (j < channels.size() && channels[j] == channels[j - 1] + 1 && variable_of(j) == variable_of(i))
        ++j;
      const Index first = fields_.channels[static_cast<std::size_t>(channels[i])].component;
      const StoredVariable& variable = stored.variables[variable_of(i)];
      const hdf5::Dataset dataset = root.dataset(variable.path);
      dataset.expect_shape(variable.shape);
      try {
        read_run(dataset, variable, at, box, {first, first + static_cast<Index>(j - i)},
                 static_cast<Index>(channels.size()), out + i);
      } catch (const Error&) {
        if (!first_error) first_error = std::current_exception();
      }
    }
    if (first_error) std::rethrow_exception(first_error);
  });
}

template <typename T>
void SlabSource::read_run(const hdf5::Dataset& dataset, const StoredVariable& variable, const Place& at,
                          const Box& box, Range components, Index channels, T* out) {
  SlabRead slab;
  slab.packing = variable.packing;
  slab.policy = policy_;
  for (const Index i : variable.index) slab.source.push_back({i, i + 1});
  if (variable.sample >= 0) slab.source[variable.sample] = {at.sample, at.sample + 1};
  if (variable.time >= 0) slab.source[variable.time] = {at.step, at.step + 1};
  for (int d = 0; d < box.size(); ++d) {
    if (const int dim = variable.grid[static_cast<std::size_t>(d)]; dim >= 0) slab.source[dim] = box[d];
  }
  if (variable.component_dims == 1) slab.source[variable.component] = components;
  if (variable.component_dims == 2) {  // whole rows of the tensor are read, and components picked from them
    const Index extent = variable.shape[variable.component + 1];
    const Index row = components.lo / extent;
    slab.source[variable.component] = {row, (components.hi - 1) / extent + 1};
    slab.source[variable.component + 1] = {0, extent};
    slab.skip = components.lo - row * extent;
  }
  const Shape from = strides_of(slab.source.shape());
  Shape whole = box.shape();
  whole.push_back(channels);
  slab.to_strides = strides_of(whole);
  for (int d = 0; d < box.size(); ++d) {
    const int dim = variable.grid[static_cast<std::size_t>(d)];
    slab.extents.push_back(box[d].size());
    slab.from_strides.push_back(dim >= 0 ? from[dim] : 0);
  }
  slab.extents.push_back(components.size());
  const int last_component = variable.component + variable.component_dims - 1;
  slab.from_strides.push_back(variable.component_dims == 0 ? 1 : from[last_component]);
  if (box.is_empty()) {
    for (Range& range : slab.source) range = {0, 0};
  }
  read_slab(dataset, slab, out);
}

}  // namespace tessera
