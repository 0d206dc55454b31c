#include "app/bench/random_fields.hpp"

#include <numeric>

#include "app/bench/kinds.hpp"
#include "io/hdf5/file.hpp"
#include "solver/tensor/random.hpp"

namespace tessera::bench {

RandomFields::RandomFields(const Shape& grid, Index channels, Index trajectories) {
  fields_.name = "random fields";
  for (int a = 0; a < grid.size(); ++a) {
    std::vector<double> coordinates(static_cast<std::size_t>(grid[a]));
    std::iota(coordinates.begin(), coordinates.end(), 0.0);
    fields_.axes.push_back({.name = "x" + std::to_string(a), .unit = {}, .coordinates = coordinates});
  }
  for (Index i = 0; i < channels; ++i) {
    const std::string name = "f" + std::to_string(i);
    fields_.channels.push_back({.name = name, .unit = {}, .field = name});
  }
  fields_.trajectories.assign(static_cast<std::size_t>(trajectories), {2, {}, {}, {}});
}

template <typename T>
void RandomFields::fill(Index trajectory, Index step, std::span<const int> channels, const Box& box,
                        T* out) const {
  const CounterRandom random(1, stream_of(std::to_string(trajectory) + " " + std::to_string(step)));
  const Shape grid = fields_.grid(), shape = box.shape();
  const auto all = static_cast<Index>(fields_.channels.size());
  for (Index cell = 0; cell < box.volume(); ++cell) {
    Index global = 0, rest = cell, stride = 1;
    for (int a = grid.size(); a-- > 0;) {
      global += (box[a].lo + rest % shape[a]) * stride;
      rest /= shape[a];
      stride *= grid[a];
    }
    for (const int channel : channels) {
      *out++ = static_cast<T>(random.normal(static_cast<std::uint64_t>(global * all + channel)));
    }
  }
}

void RandomFields::read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
                        float* out) {
  fill(trajectory, step, channels, box, out);
}
void RandomFields::read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
                        double* out) {
  fill(trajectory, step, channels, box, out);
}

void save_fields(const CommPtr& group, FieldSource& source, const std::filesystem::path& path) {
  const FieldSet& fields = source.fields();
  const auto trajectories = static_cast<Index>(fields.trajectories.size());
  std::vector<int> channels(fields.channels.size());
  std::iota(channels.begin(), channels.end(), 0);
  Shape shape{trajectories};
  for (const Index extent : fields.grid()) shape.push_back(extent);
  shape.push_back(static_cast<Index>(channels.size()));
  const Box own = cut_over(group, shape, 1, false).local_box();
  const Box box(own.begin() + 1, own.end() - 1);
  std::vector<float> values(static_cast<std::size_t>(box.volume()) * channels.size());
  hdf5::File file = hdf5::File::create(path.string(), group.get());
  for (const Index step : {0, 1}) {
    hdf5::Dataset data =
        file.root().create_dataset(step == 0 ? "input" : "target", {.shape = shape, .chunk = {}});
    for (Index t = 0; t < trajectories; ++t) {
      source.read(t, step, channels, box, values.data());
      Box target = own;
      target[0] = {t, t + 1};
      data.write(target, values.data());
    }
  }
  file.close();
}

}  // namespace tessera::bench
