#include "io/fields/slab.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/strided_copy.hpp"
#include "parallel/memory.hpp"

namespace tessera {
namespace {

// The dataset's index of element `offset` of the contiguous slab.
std::string index_text(const Box& source, Index offset) {
  const Shape strides = strides_of(source.shape());
  std::string text = "[";
  for (int d = 0; d < source.size(); ++d) {
    text += (d ? ", " : "") + std::to_string(source[d].lo + offset / strides[d]);
    offset %= strides[d];
  }
  return text + "]";
}

template <typename S>
void repair(const hdf5::Dataset& dataset, const SlabRead& slab, S* values, Index n) {
  using Action = BadValuePolicy::Action;
  for (Index i = 0; i < n; ++i) {
    S& v = values[i];
    const bool missing = std::find(slab.packing.missing.begin(), slab.packing.missing.end(),
                                   static_cast<double>(v)) != slab.packing.missing.end();
    if (!missing && std::isfinite(v)) {
      v = static_cast<S>(v * slab.packing.scale + slab.packing.offset);
      continue;
    }
    if (slab.policy.action == Action::error) {
      fail(ExitCode::input_file, dataset.where(), "value at {}: found {}{}, expected a finite number",
           index_text(slab.source, i), missing ? "the missing-value mark " : "", v);
    }
    if (slab.policy.action == Action::fill) {
      v = static_cast<S>(slab.policy.value);
    } else if (missing) {
      v = std::numeric_limits<S>::quiet_NaN();
    }
  }
}

// S: the type in which the slab is held; float only where that loses nothing.
template <typename S, typename T>
void read_as(const hdf5::Dataset& dataset, const SlabRead& slab, T* to) {
  const Index n = slab.source.volume();
  const MemoryBlock staging(MemorySpace::host, static_cast<std::size_t>(n) * sizeof(S));
  S* values = static_cast<S*>(staging.data());
  dataset.read(slab.source, values);
  repair(dataset, slab, values, n);
  if (n > 0) copy_strided(slab.extents, values + slab.skip, slab.from_strides, to, slab.to_strides);
}

}  // namespace

Packing read_packing(const hdf5::Dataset& dataset) {
  Packing packing;
  packing.scale = dataset.number("scale_factor").value_or(1);
  packing.offset = dataset.number("add_offset").value_or(0);
  for (const char* name : {"_FillValue", "missing_value"}) {
    if (dataset.has_attribute(name) && dataset.attribute_is_number(name)) {
      const auto values = dataset.numbers(name).value_or(std::vector<double>{});
      packing.missing.insert(packing.missing.end(), values.begin(), values.end());
    }
  }
  return packing;
}

template <typename T>
void read_slab(const hdf5::Dataset& dataset, const SlabRead& slab, T* to) {
  if (dataset.is_single() && slab.packing.is_plain()) {
    read_as<float>(dataset, slab, to);
  } else {
    read_as<double>(dataset, slab, to);
  }
}

template void read_slab(const hdf5::Dataset&, const SlabRead&, float*);
template void read_slab(const hdf5::Dataset&, const SlabRead&, double*);

}  // namespace tessera
