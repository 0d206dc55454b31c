#pragma once

#include <string>
#include <vector>

#include "io/fields/field_writer.hpp"
#include "tests/io/io_test_support.hpp"

namespace tessera::testing {

/// A small forecast: scalar `h` in m and vector `v` in m/s on 5 x 4 points, 2 trajectories of 3 steps.
/// Channel c at a step is the cell's number + 10 c + step, plus `error` times (step + 1) (c + 1).
struct Forecast {
  double error = 0;
  Shape grid{5, 4};
  Index trajectories = 2, steps = 3;
  double first_time = 100;
  std::vector<OutputField> fields{{"h", "m", 0, true}, {"v", "m/s", 1, true}};

  void write(const std::string& path) const {
    FieldFileSpec spec;
    spec.dataset_name = "waves";
    spec.time_unit = "s";
    const char* names[] = {"y", "x"};
    for (int d = 0; d < grid.size(); ++d) {
      GridAxis axis{names[d], "m", {}, {EdgeKind::periodic, EdgeKind::periodic}};
      for (Index i = 0; i < grid[d]; ++i) axis.coordinates.push_back(0.5 * static_cast<double>(i));
      spec.axes.push_back(axis);
    }
    spec.fields = fields;
    spec.scalars = {{"gravity", {9.81}}};
    spec.trajectories = trajectories;
    spec.provenance = {{"git_hash", "0123abc"}, {"mesh", "(ddp: 1, domain: 3)"}};
    FieldWriter writer(world(), path, spec);
    const Box box = uneven_box(grid);
    const std::size_t channels = fields.size() == 2 ? 3 : 1;
    for (Index b = 0; b < trajectories; ++b) {
      for (Index t = 0; t < steps; ++t) {
        std::vector<double> values;
        const Index first = box[0].lo * grid[1];
        for (Index cell = first; cell < first + box.volume(); ++cell) {
          for (std::size_t c = 0; c < channels; ++c) {
            values.push_back(static_cast<double>(cell + t) + 10.0 * static_cast<double>(c) +
                             error * static_cast<double>(t + 1) * static_cast<double>(c + 1));
          }
        }
        writer.append(b, first_time + static_cast<double>(t), box, values.data());
      }
    }
    writer.close();
  }
};

}  // namespace tessera::testing
