#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/fields/field_source.hpp"
#include "io/fields/field_writer.hpp"
#include "parallel/layout.hpp"

namespace tessera {

/// How predicted channels become the fields of a file in The Well's layout: a vector whose components are all
/// predicted stays a vector, everything else is a scalar.
struct FieldOrder {
  std::vector<OutputField> fields;
  std::vector<std::size_t> from;  ///< channel of the file -> predicted channel
};
FieldOrder field_order(const FieldSet& set, const std::vector<std::string>& channels);

/// One folder of forecasts, `<run>/<name>/part_<group>.hdf5`: trajectories are starts, steps are lead times.
class ForecastFile {
 public:
  ForecastFile(const CommPtr& group, const std::filesystem::path& folder, int group_number,
               const FieldFileSpec& spec, FieldOrder order, Box box)
      : order_(std::move(order)), box_(box), writer_(group, path(folder, group_number), spec) {}

  /// (cells of the box, predicted channels) in the data's units.
  void append(Index trajectory, double time, const std::vector<float>& values);
  void close() { writer_.close(); }

 private:
  static std::string path(const std::filesystem::path& folder, int group_number);

  FieldOrder order_;
  Box box_;
  FieldWriter writer_;
  std::vector<float> ordered_;
};

}  // namespace tessera
