#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/fields/field_source.hpp"
#include "parallel/layout.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera {

/// sin and cos of 2 pi k x / period for k = 1 ... count.
struct Harmonics {
  double period = 1;
  Index count = 1;
};

/// A static input made from the coordinates of one grid axis: scaled linearly to [-1, 1], or harmonics.
struct CoordinateInput {
  std::string axis;
  bool scaled = true;
  Harmonics harmonics;
};

/// What a model sees and what it predicts, for a target at step t of a trajectory. Channels of the input, in
/// this order:
///   every predicted field at t - lag, for each lag
///   every constant field
///   every coordinate input
///   harmonics of the step number t for every calendar
struct SampleSpec {
  std::vector<std::string> fields;     ///< channels of the source that are predicted
  std::vector<std::string> constants;  ///< further channels, taken at step 0 of the trajectory
  std::vector<Index> lags{1};
  std::vector<CoordinateInput> coordinates;
  std::vector<Harmonics> calendars;  ///< in steps
  Index residual_lag = 0;  ///< 0: predict the field itself; else the change against factor * field(t - lag)
  double residual_factor = 1;

  Index longest_lag() const;
  Index input_channels() const;
  Index output_channels() const { return static_cast<Index>(fields.size()); }
};

/// Mean and standard deviation per channel; a field is normalised as (x - mean) / max(std, 1e-4), as The Well
/// does.
struct Normalisation {
  std::vector<double> mean, std;

  double scale(std::size_t channel) const;
};

/// One sample, cut like the grid: input (1, *grid, inputs), target and base (1, *grid, fields), all
/// normalised.
struct Sample {
  Tensor input, target,
      base;  ///< base: residual_factor * field(t - residual_lag), undefined without residual
  Index trajectory = 0;
  Index step = 0;  ///< t
};

/// Host copies of recent time steps of this rank's box, so that overlapping windows read each step once.
class StepCache {
 public:
  StepCache(FieldSourcePtr source, std::vector<int> channels, Box box, std::size_t capacity_bytes);
  /// (box..., channels)
  std::shared_ptr<const std::vector<float>> step(Index trajectory, Index step);

 private:
  using Key = std::pair<Index, Index>;
  FieldSourcePtr source_;
  std::vector<int> channels_;
  Box box_;
  std::size_t capacity_;
  std::map<Key, std::shared_ptr<const std::vector<float>>> steps_;
  std::deque<Key> order_;
};

/// Makes samples of one data set on one domain mesh. The same values on any mesh.
class SampleMaker {
 public:
  /// `grid` lays out (1, *grid, 1) over the domain mesh.
  SampleMaker(FieldSourcePtr source, SampleSpec spec, Normalisation fields, Normalisation constants,
              Layout grid, std::size_t cache_bytes = std::size_t{256} << 20);

  const SampleSpec& spec() const { return spec_; }
  const Normalisation& normalisation() const { return normalisation_; }
  const FieldSource& source() const { return *source_; }
  /// Layout of (1, *grid, channels).
  Layout layout(Index channels) const;

  /// Host buffers (cells of the box, channels) that a sample is made of; may be called from a reading thread.
  struct Values {
    std::vector<float> input, target, base;
    Index trajectory = 0, step = 0;
  };
  /// `with_target` false: the target may lie beyond the data.
  Values read(Index trajectory, Index step, bool with_target = true);
  /// Reads predicted states (normalised, newest last) instead of the data for the steps they cover:
  /// `states[i]` is step `first_state + i`.
  Values read(Index trajectory, Index step, bool with_target, Index first_state,
              const std::vector<std::vector<float>>& states);
  Sample to_sample(const Values& values) const;

 private:
  void fill_lags(Values& values, Index first_state, const std::vector<std::vector<float>>& states);
  /// The inputs that are no fields: constants, coordinates, calendars.
  void fill_fixed(Values& values);
  std::vector<float> normalised(Index trajectory, Index step);

  FieldSourcePtr source_;
  SampleSpec spec_;
  Normalisation normalisation_, constant_normalisation_;
  Layout grid_;
  Index cells_ = 0;
  StepCache cache_, constant_cache_;
  std::vector<float> coordinates_;  ///< (cells, numbers)
};

}  // namespace tessera
