#include "io/fields/well_source.hpp"

#include <algorithm>
#include <filesystem>

#include "io/agree.hpp"
#include "io/fields/file_cache.hpp"
#include "io/fields/slab.hpp"
#include "io/fields/well_metadata.hpp"
#include "io/strided_copy.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

class WellSource : public FieldSource {
 public:
  WellSource(const WellSourceSpec& spec, CommPtr comm) : cache_(comm), policy_(spec.bad_values) {
    auto scan = [&] {
      for (const std::string& path : list_hdf5_files(spec.paths)) add_file(path);
    };
    if (comm) {
      run_together(*comm, scan);
    } else {
      scan();
    }
  }

  void read(Index trajectory, Index step, std::span<const int> channels, const Box& box, float* out) override {
    read_channels(trajectory, step, channels, box, out);
  }
  void read(Index trajectory, Index step, std::span<const int> channels, const Box& box, double* out) override {
    read_channels(trajectory, step, channels, box, out);
  }

 private:
  struct Place {  // of a trajectory
    std::size_t file;
    Index sample;
  };

  void add_file(const std::string& path) {
    WellFile file = read_well_file(path);
    if (files_.empty()) {
      fields_.name = file.name;
      fields_.time_unit = file.time_unit;
      fields_.axes = file.axes;
      fields_.channels = channels_of(file);
    } else {
      compare(path, file);
    }
    for (std::size_t b = 0; b < file.trajectories.size(); ++b) {
      places_.push_back({files_.size(), static_cast<Index>(b)});
      fields_.trajectories.push_back(std::move(file.trajectories[b]));
    }
    paths_.push_back(path);
    files_.push_back(std::move(file.fields));
  }

  std::vector<Channel> channels_of(const WellFile& file) {
    std::vector<std::string> axes;
    for (const GridAxis& axis : file.axes) axes.push_back(axis.name);
    std::vector<Channel> channels;
    for (std::size_t f = 0; f < file.fields.size(); ++f) {
      const WellField& field = file.fields[f];
      const auto names = component_names(field.name, field.order, field.extent, axes);
      for (std::size_t c = 0; c < names.size(); ++c) {
        channels.push_back({names[c], field.unit, field.name, static_cast<int>(c), field.time >= 0});
        if (files_.empty()) field_of_channel_.push_back(f);
      }
    }
    return channels;
  }

  void compare(const std::string& path, const WellFile& file) {
    FieldSet other;
    other.axes = file.axes;
    if (!(other.grid() == fields_.grid())) {
      fail(ExitCode::input_file, path, "grid: found {}, expected {} as in {}", to_string(other.grid()),
           to_string(fields_.grid()), paths_.front());
    }
    auto names = [](const std::vector<Channel>& channels) {
      std::string text;
      for (const Channel& c : channels) text += (text.empty() ? "" : ", ") + c.name;
      return text;
    };
    const std::string found = names(channels_of(file)), expected = names(fields_.channels);
    if (found != expected) {
      fail(ExitCode::input_file, path, "channels: found {}, expected {} as in {}", found, expected, paths_.front());
    }
  }

  template <typename T>
  void read_channels(Index trajectory, Index step, std::span<const int> channels, const Box& box, T* out) {
    check_request(trajectory, step, channels, box);
    const Place place = places_[static_cast<std::size_t>(trajectory)];
    const hdf5::File& file = cache_.get(paths_[place.file]);
    auto body = [&] {
      const hdf5::Group root = file.root();
      for (std::size_t i = 0; i < channels.size();) {  // neighbouring components of one field in one transfer
        std::size_t j = i + 1;
        const auto field = field_of(channels[i]);
        while (j < channels.size() && channels[j] == channels[j - 1] + 1 && field_of(channels[j]) == field) ++j;
        const Shape to = strides_of([&] {
          Shape full = box.shape();
          full.push_back(static_cast<Index>(channels.size()));
          return full;
        }());
        const int first = fields_.channels[static_cast<std::size_t>(channels[i])].component;
        read_field(root, files_[place.file][field], place.sample, step, box, first, static_cast<int>(j - i),
                   to, out + i);
        i = j;
      }
    };
    if (cache_.comm()) {
      run_together(*cache_.comm(), body);
    } else {
      body();
    }
  }

  std::size_t field_of(int channel) const { return field_of_channel_[static_cast<std::size_t>(channel)]; }

  template <typename T>
  void read_field(const hdf5::Group& root, const WellField& field, Index sample, Index step, const Box& box, int first,
                  int components, const Shape& to_strides, T* out) {
    const hdf5::Dataset dataset = root.dataset(field.path);
    dataset.expect_shape(field.shape);
    SlabRead slab;
    slab.policy = policy_;
    slab.source = Box::whole(Shape::filled(field.shape.size(), 1));
    if (field.sample >= 0) slab.source[field.sample] = {sample, sample + 1};
    if (field.time >= 0) slab.source[field.time] = {step, step + 1};
    for (int d = 0; d < box.size(); ++d) {
      const int at = field.grid[static_cast<std::size_t>(d)];
      if (at >= 0) slab.source[at] = box[d];
    }
    const int trailing = field.component < 0 ? 0 : field.shape.size() - field.component;
    if (trailing == 1) slab.source[field.component] = {first, first + components};
    // Of a tensor with two trailing dimensions whole rows are read, and the wanted components picked from them.
    Index skip = 0;
    if (trailing == 2) {
      const Index d = field.extent, row = first / d;
      slab.source[field.component] = {row, (first + components - 1) / d + 1};
      slab.source[field.component + 1] = {0, d};
      skip = first - row * d;
    }
    if (box.is_empty()) slab.source = Box(slab.source.size() ? empty_like(slab.source) : slab.source);
    const Shape source_strides = strides_of(slab.source.shape());
    for (int d = 0; d < box.size(); ++d) {
      const int at = field.grid[static_cast<std::size_t>(d)];
      slab.extents.push_back(box[d].size());
      slab.from_strides.push_back(at >= 0 ? source_strides[at] : 0);
      slab.to_strides.push_back(to_strides[d]);
    }
    slab.extents.push_back(components);
    slab.from_strides.push_back(1);
    slab.to_strides.push_back(1);
    slab.skip = skip;
    read_slab(dataset, slab, out);
  }

  static Box empty_like(const Box& box) {
    Box empty;
    for (int d = 0; d < box.size(); ++d) empty.push_back({0, 0});
    return empty;
  }

  FileCache cache_;
  BadValuePolicy policy_;
  std::vector<std::string> paths_;
  std::vector<std::vector<WellField>> files_;  // fields of each file
  std::vector<std::size_t> field_of_channel_;
  std::vector<Place> places_;
};

}  // namespace

std::vector<std::string> list_hdf5_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ec;
    if (!fs::is_directory(path, ec)) {
      if (!fs::exists(path, ec)) fail(ExitCode::input_file, path, "no such file or folder");
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path, ec)) {
      const auto suffix = entry.path().extension();
      if (suffix == ".hdf5" || suffix == ".h5") found.push_back(entry.path().string());
    }
    if (found.empty()) fail(ExitCode::input_file, path, "the folder holds no *.hdf5 or *.h5 file");
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  if (files.empty()) fail(ExitCode::input_file, "data", "no file given");
  return files;
}

FieldSourcePtr open_well(const WellSourceSpec& spec, CommPtr comm) {
  return std::make_shared<WellSource>(spec, std::move(comm));
}

}  // namespace tessera
