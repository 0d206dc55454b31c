#pragma once

#include <memory>
#include <span>
#include <string>

#include "io/fields/field_set.hpp"
#include "parallel/box.hpp"
#include "parallel/communicator.hpp"

namespace tessera {

/// What to do with a missing value (NetCDF's _FillValue, missing_value), NaN or infinity in the data.
struct BadValuePolicy {
  enum class Action : std::uint8_t {
    error,  ///< Error(input_file) that names file, dataset and index
    fill,   ///< replace by `value`
    keep,   ///< hand over as NaN or infinity
  };
  Action action = Action::error;
  double value = 0;
};

/// A data set on disk, read box by box. A source opened with a communicator of several ranks reads
/// collectively: all of its ranks call read() with the same trajectory, step and channels, each with its own
/// box (empty ones too), and all destroy it together; an error on one rank is thrown by all. A source opened
/// without one belongs to this rank alone and may be used from any one thread.
class FieldSource {
 public:
  virtual ~FieldSource() = default;

  const FieldSet& fields() const { return fields_; }

  /// Values of `channels` (positions in fields().channels) at one step on `box` of the grid, in host memory,
  /// contiguous: (box..., channels). Channels that do not vary in time are the same at every step.
  virtual void read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
                    float* out) = 0;
  virtual void read(Index trajectory, Index step, std::span<const int> channels, const Box& box,
                    double* out) = 0;

 protected:
  /// Throws (internal) where an argument of read() is out of range.
  void check_request(Index trajectory, Index step, std::span<const int> channels, const Box& box) const;

  FieldSet fields_;
};

using FieldSourcePtr = std::shared_ptr<FieldSource>;

}  // namespace tessera
