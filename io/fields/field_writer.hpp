#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/fields/field_set.hpp"
#include "parallel/box.hpp"
#include "parallel/communicator.hpp"
#include "parallel/dtype.hpp"
#include "parallel/partition.hpp"

namespace tessera {

/// One field of an output file.
struct OutputField {
  std::string name;
  std::string unit;
  int order = 0;  ///< 0 scalar, 1 vector (one component per grid axis), 2 tensor
  bool time_varying = true;
};

/// A constant of the simulation: one value, or one per trajectory.
struct OutputScalar {
  std::string name;
  std::vector<double> values;
};

struct FieldFileSpec {
  std::string dataset_name;
  std::string grid_type = "cartesian";  ///< or "spherical"
  std::string time_unit;
  std::vector<GridAxis>
      axes;  ///< in the order of the data; the two edges of an axis make its boundary conditions
  std::vector<OutputField> fields;
  std::vector<OutputScalar> scalars;
  Index trajectories = 1;
  Index expected_steps = 0;  ///< a hint that spares growing the file; 0 unknown
  /// Where each axis is cut over the ranks that write: chunks then do not straddle cut points, if those have
  /// a common divisor to make chunks of. Empty: not known. Files can be read on any partition.
  std::vector<Partition> cuts = {};
  DType type = DType::f32;  ///< f32 or f64, in the file
  int deflate = 0;          ///< 0 ... 9
  bool xdmf = true;         ///< write `<path without suffix>.xdmf` too (2-D and 3-D grids)
  Provenance provenance;
};

/// Writes one HDF5 file in The Well's layout. Everything is collective over `comm`; each rank brings its own
/// box of the grid.
///
/// One file belongs to one communicator: where ddp groups produce trajectories side by side, each group
/// writes a file of its own, which is what The Well's folders hold anyway (readers take all files of a folder
/// in name order).
///
/// Channels of a buffer, innermost: first the scalar fields in the order of the FieldFileSpec, then the
/// vector fields' components, then the tensor fields'. append() takes the fields that vary in time,
/// write_static() the others.
///
/// The file grows under `<path>.partial` and gets its name in close(). Trajectories may have different
/// lengths: steps that were not written read as NaN, in the fields and in `time`. Without close() nothing is
/// left behind.
class FieldWriter {
 public:
  FieldWriter(CommPtr comm, std::string path, FieldFileSpec spec);
  ~FieldWriter();
  FieldWriter(FieldWriter&&) noexcept;
  FieldWriter& operator=(FieldWriter&&) = delete;

  /// The next step of a trajectory at `time`: host memory (box..., channels that vary in time).
  void append(Index trajectory, double time, const Box& box, const float* data);
  void append(Index trajectory, double time, const Box& box, const double* data);
  /// Host memory (box..., channels that do not vary in time), once per trajectory.
  void write_static(Index trajectory, const Box& box, const float* data);
  void write_static(Index trajectory, const Box& box, const double* data);
  /// Steps of a trajectory so far.
  Index steps(Index trajectory) const;
  /// Completes the file and gives it its name.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The provenance texts of a file; none if it has no such group.
Provenance read_provenance(const std::string& path);

}  // namespace tessera
