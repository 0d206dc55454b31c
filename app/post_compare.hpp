#pragma once

#include <string>
#include <vector>

#include "io/metrics/error_meter.hpp"

namespace tessera {

/// What `post compare` finds: metrics of each prediction, per field and lead time.
struct Comparison {
  struct Field {
    std::string name, unit;
  };
  struct Column {
    std::string name, path;
    std::vector<double> values;  ///< (metric, field, lead time), then (metric, field) means over lead times
  };
  std::string truth;  ///< path
  std::string grid, steps;
  std::vector<Metric> metrics;
  std::vector<Field> fields;
  Index leads = 0;
  double step_length = 0;  ///< time between steps; 0 where it varies
  std::string time_unit;
  std::vector<Index> samples;  ///< per lead time
  std::vector<Column> columns;

  double value(const Column& column, std::size_t metric, std::size_t field, Index lead) const;
  double mean(const Column& column, std::size_t metric, std::size_t field) const;
};

struct CompareRequest {
  std::vector<std::string> paths;   ///< truth, predictions
  std::vector<std::string> fields;  ///< empty: all that vary in time
  std::vector<Metric> metrics;
  Index skip = 0;  ///< first steps that are left out
};

/// Reads truth and predictions box by box, with the grid cut evenly over the ranks. Collective. Throws
/// Error(input_file) where they do not fit together.
Comparison compare_fields(const CompareRequest& request, const CommPtr& world);

/// One table per metric: rows are fields and lead times, columns the predictions. Of many lead times some are
/// shown.
std::string comparison_table(const Comparison& comparison);
std::string comparison_json(const Comparison& comparison);

}  // namespace tessera
