#include <cmath>
#include <limits>

#include <hdf5.h>

#include "io/hdf5/file.hpp"
#include "io/hdf5/file_state.hpp"
#include "io/hdf5/watch.hpp"
#include "io/hint.hpp"

namespace tessera::hdf5 {
namespace {

constexpr std::size_t kMaxListed = 10000;  // names gathered for a hint

H5I_type_t kind_of(Id location, const std::string& name) {
  // H5Oopen fails quietly where any part of the path is missing.
  const Handle object(H5Oopen(location, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object) {
    take_error_text();
    return H5I_BADID;
  }
  return H5Iget_type(object.get());
}

struct Listing {
  H5O_type_t kind;
  std::vector<std::string> names;
};

herr_t gather(hid_t, const char* name, const H5O_info_t* info, void* client) {
  auto& listing = *static_cast<Listing*>(client);
  if (info->type == listing.kind && std::string_view(name) != ".")
    listing.names.push_back("/" + std::string(name));
  return listing.names.size() < kMaxListed ? 0 : 1;
}

// Every object of a kind below `location`.
std::vector<std::string> all_paths(Id location, H5O_type_t kind) {
  Listing listing{kind, {}};
#if H5_VERSION_GE(1, 12, 0)
  H5Ovisit3(location, H5_INDEX_NAME, H5_ITER_INC, gather, &listing, H5O_INFO_BASIC);
#elif H5_VERSION_GE(1, 10, 3)
  H5Ovisit2(location, H5_INDEX_NAME, H5_ITER_INC, gather, &listing, H5O_INFO_BASIC);
#else
  H5Ovisit(location, H5_INDEX_NAME, H5_ITER_INC, gather, &listing);
#endif
  take_error_text();
  return listing.names;
}

herr_t gather_member(hid_t, const char* name, const H5L_info_t*, void* client) {
  static_cast<std::vector<std::string>*>(client)->emplace_back(name);
  return 0;
}

std::string absolute_hint(const std::string& wanted, const std::vector<std::string>& paths) {
  std::string hint = nearest_hint(wanted, paths);
  if (!hint.empty() || paths.empty()) return hint;
  hint = "; the file has ";
  for (std::size_t i = 0; i < std::min<std::size_t>(paths.size(), 8); ++i) hint += (i ? ", " : "") + paths[i];
  return hint + (paths.size() > 8 ? ", ..." : "");
}

}  // namespace

std::string Group::absolute(const std::string& name) const {
  if (!name.empty() && name[0] == '/') return name;
  return path() == "/" ? "/" + name : path() + "/" + name;
}

std::vector<std::string> Group::members(bool datasets_only) const {
  const Lock lock;
  std::vector<std::string> names;
  if (H5Literate(id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, gather_member, &names) < 0)
    fail_hdf5(where(), "cannot list");
  if (datasets_only) std::erase_if(names, [this](const std::string& n) { return !has_dataset(n); });
  return names;
}

bool Group::has_group(const std::string& name) const {
  const Lock lock;
  return kind_of(id(), name) == H5I_GROUP;
}

bool Group::has_dataset(const std::string& name) const {
  const Lock lock;
  return kind_of(id(), name) == H5I_DATASET;
}

Group Group::group(const std::string& name) const {
  const Lock lock;
  const std::string full = absolute(name);
  if (!has_group(name)) {
    fail(ExitCode::input_file, file()->path + ": " + full, "no such group{}",
         absolute_hint(full, all_paths(file()->id.get(), H5O_TYPE_GROUP)));
  }
  Handle group(H5Gopen2(id(), name.c_str(), H5P_DEFAULT), H5Gclose);
  if (!group) fail_hdf5(file()->path + ": " + full, "cannot open group");
  return Group(file(), std::move(group), full);
}

Dataset Group::dataset(const std::string& name) const {
  const Lock lock;
  const std::string full = absolute(name);
  if (!has_dataset(name)) {
    fail(ExitCode::input_file, file()->path + ": " + full, "no such dataset{}",
         absolute_hint(full, all_paths(file()->id.get(), H5O_TYPE_DATASET)));
  }
  Handle dataset(H5Dopen2(id(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset) fail_hdf5(file()->path + ": " + full, "cannot open dataset");
  return Dataset(file(), std::move(dataset), full);
}

Group Group::create_group(const std::string& name) {
  const Lock lock;
  Handle group(H5Gcreate2(id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  if (!group) fail_hdf5(file()->path + ": " + absolute(name), "cannot create group");
  return Group(file(), std::move(group), absolute(name));
}

Dataset Group::create_dataset(const std::string& name, const DatasetSpec& spec) {
  const Lock lock;
  const Watch watch(*file(), "create a dataset");
  std::array<hsize_t, kMaxDims> extent{}, most{}, chunk{};
  for (int d = 0; d < spec.shape.size(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    extent[i] = static_cast<hsize_t>(spec.shape[d]);
    most[i] = spec.growable ? H5S_UNLIMITED : extent[i];
    if (!spec.chunk.empty()) chunk[i] = static_cast<hsize_t>(std::max<Index>(spec.chunk[d], 1));
  }
  const int dims = spec.shape.size();
  const Handle space(dims ? H5Screate_simple(dims, extent.data(), most.data()) : H5Screate(H5S_SCALAR),
                     H5Sclose);
  const Handle plist(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(plist.get(), false);  // the same data give the same bytes
  if (!spec.chunk.empty()) H5Pset_chunk(plist.get(), dims, chunk.data());
  if (spec.deflate > 0) H5Pset_deflate(plist.get(), static_cast<unsigned>(spec.deflate));
  if (spec.fill_nan) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    H5Pset_fill_value(plist.get(), H5T_NATIVE_DOUBLE, &nan);
  } else if (spec.chunk.empty() && file()->parallel) {
    H5Pset_fill_time(plist.get(), H5D_FILL_TIME_NEVER);
  }
  const Handle type = make_file_type(spec.element);
  Handle dataset(
      H5Dcreate2(id(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT),
      H5Dclose);
  if (!dataset) fail_write(*file(), file()->path + ": " + absolute(name), "cannot create dataset");
  return Dataset(file(), std::move(dataset), absolute(name));
}

Dataset Group::create_numbers(const std::string& name, const Shape& shape, std::span<const double> values,
                              Element element) {
  require(count(shape) == static_cast<Index>(values.size()), "hdf5", "{} values for shape {}", values.size(),
          to_string(shape));
  Dataset dataset = create_dataset(name, {.element = element, .shape = shape, .chunk = {}});
  const std::vector<float> single(element == Element::f32 ? values.begin() : values.end(), values.end());
  // Collective transfers in which all ranks write the same bytes are legal, and need no agreement on who does
  // it.
  if (element == Element::f32) {
    dataset.write(Box::whole(shape), single.data());
  } else {
    dataset.write(Box::whole(shape), values.data());
  }
  return dataset;
}

Dataset Group::create_flags(const std::string& name, const std::vector<bool>& values, const Shape& shape) {
  const Lock lock;
  Dataset dataset = create_dataset(name, {.element = Element::boolean, .shape = shape, .chunk = {}});
  const std::vector<std::int8_t> bytes(values.begin(), values.end());
  const Handle type = make_bool_type();
  if (bytes.size() && H5Dwrite(dataset.id(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0) {
    fail_hdf5(dataset.where(), "cannot write");
  }
  return dataset;
}

}  // namespace tessera::hdf5
