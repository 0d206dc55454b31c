#include "app/forecast_files.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tessera {

FieldOrder field_order(const FieldSet& set, const std::vector<std::string>& channels) {
  FieldOrder scalars, vectors;
  const std::size_t axes = set.axes.size();
  for (std::size_t c = 0; c < channels.size();) {
    const Channel& first = set.channels[static_cast<std::size_t>(set.channel(channels[c]))];
    bool whole = first.field != first.name && first.component == 0 && c + axes <= channels.size();
    for (std::size_t k = 1; whole && k < axes; ++k) {
      const Channel& next = set.channels[static_cast<std::size_t>(set.channel(channels[c + k]))];
      whole = next.field == first.field && next.component == static_cast<int>(k);
    }
    FieldOrder& group = whole ? vectors : scalars;
    group.fields.push_back({whole ? first.field : first.name, first.unit, whole ? 1 : 0, true});
    for (std::size_t k = 0; k < (whole ? axes : 1); ++k) group.from.push_back(c + k);
    c += whole ? axes : 1;
  }
  scalars.fields.insert(scalars.fields.end(), vectors.fields.begin(), vectors.fields.end());
  scalars.from.insert(scalars.from.end(), vectors.from.begin(), vectors.from.end());
  return scalars;
}

std::string ForecastFile::path(const std::filesystem::path& folder, int group_number) {
  return (folder / fmt::format("part_{:05d}.hdf5", group_number)).string();
}

void ForecastFile::append(Index trajectory, double time, const std::vector<float>& values) {
  const std::size_t channels = order_.from.size();
  ordered_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); i += channels) {
    for (std::size_t c = 0; c < channels; ++c) ordered_[i + c] = values[i + order_.from[c]];
  }
  writer_.append(trajectory, time, box_, ordered_.data());
}

}  // namespace tessera
