#include "io/hdf5/dataset.hpp"

#include <array>
#include <type_traits>

#include <hdf5.h>

#include "io/hdf5/file_state.hpp"
#include "io/hdf5/watch.hpp"

namespace tessera::hdf5 {
namespace {

template <typename T>
Id memory_type() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_NATIVE_UINT8;
}

using Extents = std::array<hsize_t, kMaxDims>;

std::string filters_of(Id dataset) {
  const Handle plist(H5Dget_create_plist(dataset), H5Pclose);
  std::string missing;
  for (int i = 0; i < H5Pget_nfilters(plist.get()); ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    char name[64] = "";
    const auto filter = H5Pget_filter2(plist.get(), static_cast<unsigned>(i), &flags, &values, nullptr,
                                       sizeof name, name, nullptr);
    if (filter >= 0 && H5Zfilter_avail(filter) <= 0) {
      missing += fmt::format("{}{} '{}'", missing.empty() ? "" : ", ", static_cast<int>(filter), name);
    }
  }
  return missing;
}

}  // namespace

Dataset::Dataset(std::shared_ptr<const FileState> file, Handle id, std::string path)
    : Object(std::move(file), std::move(id), std::move(path)) {
  const Lock lock;
  const Handle space(H5Dget_space(this->id()), H5Sclose);
  const int dims = H5Sget_simple_extent_ndims(space.get());
  if (dims < 0) fail_hdf5(where(), "cannot read the shape");
  if (dims > kMaxDims)
    fail(ExitCode::input_file, where(), "dimensions: found {}, expected at most {}", dims, kMaxDims);
  Extents extents{};
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  for (int d = 0; d < dims; ++d) shape_.push_back(static_cast<Index>(extents[static_cast<std::size_t>(d)]));
  const Handle type(H5Dget_type(this->id()), H5Tclose);
  element_ = element_of_type(type.get());
}

Shape Dataset::chunk() const {
  const Lock lock;
  const Handle plist(H5Dget_create_plist(id()), H5Pclose);
  if (H5Pget_layout(plist.get()) != H5D_CHUNKED) return {};
  Extents extents{};
  if (H5Pget_chunk(plist.get(), kMaxDims, extents.data()) < 0) fail_hdf5(where(), "cannot read the chunks");
  Shape chunk;
  for (int d = 0; d < shape_.size(); ++d)
    chunk.push_back(static_cast<Index>(extents[static_cast<std::size_t>(d)]));
  return chunk;
}

void Dataset::expect_dims(int dims) const {
  if (shape_.size() == dims) return;
  fail(ExitCode::input_file, where(), "dimensions: found {} {}, expected {}", shape_.size(),
       to_string(shape_), dims);
}

void Dataset::expect_shape(const Shape& expected) const {
  bool equal = expected.size() == shape_.size();
  for (int d = 0; equal && d < expected.size(); ++d) equal = expected[d] < 0 || expected[d] == shape_[d];
  if (!equal)
    fail(ExitCode::input_file, where(), "shape: found {}, expected {}", to_string(shape_),
         to_string(expected));
}

void Dataset::transfer(bool writing, const Box& box, Id memory, void* data, Transfer mode) const {
  const Lock lock;
  const Box inside = box.size() == shape_.size() ? intersect(box, Box::whole(shape_)) : Box{};
  if (box.size() != shape_.size() || (!box.is_empty() && !(inside == box))) {
    fail(ExitCode::input_file, where(), "shape: found {}, which does not hold {}", to_string(shape_),
         to_string(box));
  }
  Extents start{}, extent{};
  for (int d = 0; d < box.size(); ++d) {
    start[static_cast<std::size_t>(d)] = static_cast<hsize_t>(box[d].lo);
    extent[static_cast<std::size_t>(d)] = static_cast<hsize_t>(box[d].size());
  }
  const Handle file_space(H5Dget_space(id()), H5Sclose);
  const auto elements = static_cast<hsize_t>(std::max<Index>(box.volume(), 1));
  const Handle memory_space(H5Screate_simple(1, &elements, nullptr), H5Sclose);
  if (box.is_empty()) {
    H5Sselect_none(file_space.get());
    H5Sselect_none(memory_space.get());
  } else if (box.size() > 0) {
    H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr);
  }
  const Handle plist(H5Pcreate(H5P_DATASET_XFER), H5Pclose);
  if (file()->parallel) {
    H5Pset_dxpl_mpio(plist.get(),
                     mode == Transfer::collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
  } else if (box.is_empty()) {
    return;
  }
  std::uint64_t nothing = 0;  // HDF5 wants an address even where it moves nothing
  if (!data) data = &nothing;
  const Watch watch(*file(), writing ? "write" : "read");
  const herr_t status = writing
                            ? H5Dwrite(id(), memory, memory_space.get(), file_space.get(), plist.get(), data)
                            : H5Dread(id(), memory, memory_space.get(), file_space.get(), plist.get(), data);
  if (status >= 0) return;
  if (writing) fail_write(*file(), where(), "cannot write " + to_string(box));
  const std::string text = take_error_text();
  if (const std::string filters = filters_of(id()); !filters.empty()) {
    fail(ExitCode::input_file, where(), "compressed with a filter that this HDF5 does not have: {}", filters);
  }
  fail(ExitCode::input_file, where(), "cannot read {}: {}", to_string(box), text);
}

template <typename T>
void Dataset::read(const Box& box, T* to, Transfer mode) const {
  transfer(false, box, memory_type<T>(), to, mode);
}

template <typename T>
void Dataset::write(const Box& box, const T* from, Transfer mode) {
  transfer(true, box, memory_type<T>(), const_cast<T*>(from), mode);
}

template <typename T>
std::vector<T> Dataset::read_all(Index most) const {
  if (element_ == Element::text || element_ == Element::other) {
    fail(ExitCode::input_file, where(), "type: found {}, expected numbers", name_of(element_));
  }
  const Index elements = count(shape_);
  if (elements > most) {
    fail(ExitCode::input_file, where(), "elements: found {}, expected at most {}", elements, most);
  }
  std::vector<T> values(static_cast<std::size_t>(elements));
  read(Box::whole(shape_), values.data(), Transfer::independent);
  return values;
}

void Dataset::resize(const Shape& shape) {
  const Lock lock;
  const Watch watch(*file(), "resize");
  Extents extents{};
  for (int d = 0; d < shape.size(); ++d)
    extents[static_cast<std::size_t>(d)] = static_cast<hsize_t>(shape[d]);
  if (H5Dset_extent(id(), extents.data()) < 0)
    fail_write(*file(), where(), "cannot resize to " + to_string(shape));
  shape_ = shape;
}

std::string Dataset::scale_path(int d) const {
  const Lock lock;
  if (d >= shape_.size() || H5Aexists(id(), "DIMENSION_LIST") <= 0) return "";
  const Handle attribute(H5Aopen(id(), "DIMENSION_LIST", H5P_DEFAULT), H5Aclose);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  if (H5Tget_class(type.get()) != H5T_VLEN || H5Sget_simple_extent_npoints(space.get()) != shape_.size())
    return "";
  std::vector<hvl_t> lists(static_cast<std::size_t>(shape_.size()));
  if (H5Aread(attribute.get(), type.get(), lists.data()) < 0) {
    take_error_text();
    return "";
  }
  std::string path;
  const hvl_t& list = lists[static_cast<std::size_t>(d)];
  if (list.len > 0) {
    const Handle scale(H5Rdereference2(id(), H5P_DEFAULT, H5R_OBJECT, list.p), H5Oclose);
    char name[1024] = "";
    if (scale && H5Iget_name(scale.get(), name, sizeof name) > 0) path = name;
  }
  H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, lists.data());
  return path;
}

#define TESSERA_INSTANTIATE(T)                                  \
  template void Dataset::read(const Box&, T*, Transfer) const;  \
  template void Dataset::write(const Box&, const T*, Transfer); \
  template std::vector<T> Dataset::read_all(Index) const;
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::int64_t)
TESSERA_INSTANTIATE(std::uint8_t)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::hdf5
