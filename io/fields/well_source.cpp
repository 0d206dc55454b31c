#include "io/fields/well_source.hpp"

#include <algorithm>
#include <filesystem>

#include "io/fields/slab_source.hpp"
#include "io/fields/well_metadata.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

class WellSource : public SlabSource {
 public:
  WellSource(const WellSourceSpec& spec, CommPtr comm) : SlabSource(std::move(comm), spec.bad_values) {
    together([&] {
      for (const std::string& path : list_hdf5_files(spec.paths)) add_file(path);
    });
  }

 private:
  Place place(Index trajectory, Index step) const override {
    Place place = places_[static_cast<std::size_t>(trajectory)];
    place.step = step;
    return place;
  }

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
      places_.push_back({files_.size(), static_cast<Index>(b), 0});
      fields_.trajectories.push_back(std::move(file.trajectories[b]));
    }
    StoredFile stored{path, {}};
    for (WellField& field : file.fields) stored.variables.push_back(std::move(field.stored));
    files_.push_back(std::move(stored));
  }

  std::vector<Channel> channels_of(const WellFile& file) {
    std::vector<std::string> axes;
    for (const GridAxis& axis : file.axes) axes.push_back(axis.name);
    std::vector<Channel> channels;
    for (std::size_t f = 0; f < file.fields.size(); ++f) {
      const WellField& field = file.fields[f];
      const auto names = component_names(field.name, field.order, field.extent, axes);
      for (std::size_t c = 0; c < names.size(); ++c) {
        channels.push_back(
            {names[c], field.unit, field.name, static_cast<int>(c), field.stored.time >= 0, field.order});
        if (files_.empty()) variable_of_channel_.push_back(f);
      }
    }
    return channels;
  }

  void compare(const std::string& path, const WellFile& file) {
    FieldSet other;
    other.axes = file.axes;
    if (!(other.grid() == fields_.grid())) {
      fail(ExitCode::input_file, path, "grid: found {}, expected {} as in {}", to_string(other.grid()),
           to_string(fields_.grid()), files_.front().path);
    }
    auto names = [](const std::vector<Channel>& channels) {
      std::string text;
      for (const Channel& c : channels) text += (text.empty() ? "" : ", ") + c.name;
      return text;
    };
    const std::string found = names(channels_of(file)), expected = names(fields_.channels);
    if (found != expected) {
      fail(ExitCode::input_file, path, "channels: found {}, expected {} as in {}", found, expected,
           files_.front().path);
    }
  }

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
      if (suffix == ".hdf5" || suffix == ".h5" || suffix == ".nc") found.push_back(entry.path().string());
    }
    if (found.empty()) fail(ExitCode::input_file, path, "the folder holds no *.hdf5, *.h5 or *.nc file");
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
