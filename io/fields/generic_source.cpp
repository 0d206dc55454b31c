#include "io/fields/generic_source.hpp"

#include <algorithm>
#include <numeric>

#include "io/fields/generic_scan.hpp"
#include "io/fields/well_source.hpp"

namespace tessera {
namespace {

using Join = GenericSourceSpec::Join;

std::vector<double> numbers(Index n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

class GenericSource : public SlabSource {
 public:
  GenericSource(const GenericSourceSpec& spec, CommPtr comm)
      : SlabSource(std::move(comm), spec.bad_values), join_(spec.join) {
    const std::vector<std::string> axes = generic_axes(spec);
    together([&] {
      for (const std::string& path : list_hdf5_files(spec.paths)) {
        add_file(path, scan_generic_file(spec, axes, path), spec);
      }
      if (join_ == Join::time) finish_time_join();
    });
  }

 private:
  Place place(Index trajectory, Index step) const override {
    if (join_ == Join::sample) {
      Place place = places_[static_cast<std::size_t>(trajectory)];
      place.step = step;
      return place;
    }
    const auto after = std::upper_bound(first_step_.begin(), first_step_.end(), step);
    const auto file = static_cast<std::size_t>(after - first_step_.begin()) - 1;
    return {file, trajectory, step - first_step_[file]};
  }

  void add_file(const std::string& path, GenericFile file, const GenericSourceSpec& spec) {
    if (files_.empty()) {
      fields_.name = path;
      fields_.axes = file.axes;
      fields_.time_unit = file.time_unit;
      name_channels(spec, file);
    } else {
      compare(path, file);
    }
    if (join_ == Join::sample) {
      add_samples(path, file);
    } else {
      add_steps(path, file);
    }
    files_.push_back({path, std::move(file.variables)});
  }

  void add_samples(const std::string& path, const GenericFile& file) {
    const Index steps = std::max<Index>(file.steps, 1);
    const auto times =
        std::make_shared<const std::vector<double>>(file.times.empty() ? numbers(steps) : file.times);
    for (Index b = 0; b < std::max<Index>(file.samples, 1); ++b) {
      places_.push_back({files_.size(), b, 0});
      fields_.trajectories.push_back({steps, times, {}, path});
    }
  }

  void add_steps(const std::string& path, const GenericFile& file) {
    const Index samples = std::max<Index>(file.samples, 1);
    if (!files_.empty() && samples != samples_) {
      fail(ExitCode::input_file, path, "samples: found {}, expected {} as in {}", samples, samples_,
           files_.front().path);
    }
    samples_ = samples;
    first_step_.push_back(steps_);
    steps_ += std::max<Index>(file.steps, 1);
    times_.insert(times_.end(), file.times.begin(), file.times.end());
  }

  void finish_time_join() {
    if (static_cast<Index>(times_.size()) != steps_) times_ = numbers(steps_);
    const auto times = std::make_shared<const std::vector<double>>(std::move(times_));
    for (Index b = 0; b < samples_; ++b) {
      fields_.trajectories.push_back({steps_, times, {}, files_.front().path});
    }
  }

  void name_channels(const GenericSourceSpec& spec, const GenericFile& file) {
    for (std::size_t v = 0; v < spec.variables.size(); ++v) {
      const GenericVariable& variable = spec.variables[v];
      const StoredVariable& stored = file.variables[v];
      const std::string name = stored.path.substr(stored.path.rfind('/') + 1);
      const bool several = stored.component >= 0;
      const Index n = several ? stored.shape[stored.component] : 1;
      for (Index c = 0; c < n; ++c) {
        std::string channel = several ? name + "_" + std::to_string(c) : name;
        if (!variable.channels.empty()) channel = variable.channels[static_cast<std::size_t>(c)];
        fields_.channels.push_back(
            {std::move(channel), file.units[v], name, static_cast<int>(c), stored.time >= 0, 0});
        variable_of_channel_.push_back(v);
      }
    }
  }

  void compare(const std::string& path, const GenericFile& file) {
    FieldSet other;
    other.axes = file.axes;
    if (!(other.grid() == fields_.grid())) {
      fail(ExitCode::input_file, path, "grid: found {}, expected {} as in {}", to_string(other.grid()),
           to_string(fields_.grid()), files_.front().path);
    }
    for (std::size_t v = 0; v < file.variables.size(); ++v) {
      const StoredVariable &a = file.variables[v], &b = files_.front().variables[v];
      if (a.component >= 0 && a.shape[a.component] != b.shape[b.component]) {
        fail(ExitCode::input_file, path + ": " + a.path, "channels: found {}, expected {} as in {}",
             a.shape[a.component], b.shape[b.component], files_.front().path);
      }
    }
  }

  Join join_;
  std::vector<Place> places_;      // of trajectories, where files add samples
  std::vector<Index> first_step_;  // of files, where they add steps
  Index steps_ = 0, samples_ = 0;
  std::vector<double> times_;
};

}  // namespace

FieldSourcePtr open_generic(const GenericSourceSpec& spec, CommPtr comm) {
  return std::make_shared<GenericSource>(spec, std::move(comm));
}

}  // namespace tessera
