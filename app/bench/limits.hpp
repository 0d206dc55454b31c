#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "app/bench/measure.hpp"
#include "parallel/box.hpp"
#include "parallel/dtype.hpp"

namespace tessera::bench {

/// Who sends whom what, while bare messages are measured.
enum class Pattern : std::uint8_t {
  neighbours,  ///< every rank sends one message to the rank before and one to the rank after it
  ring,        ///< every rank sends one message to the rank after it, the last one to the first
};
/// Messages that all of `ranks` ranks send in one round.
int messages_of(Pattern pattern, int ranks);

/// A convolution with 3-wide kernels, stride 1 and as many outputs as inputs.
struct ConvShape {
  Shape grid;  ///< 2 or 3 extents
  Index channels = 0;
  DType type = DType::f32;
};

/// What machine and libraries can do, measured in this run on the ranks of one group, all at the same time;
/// each figure once, when it is first asked for. Rates are those of the whole group. Collective.
class Limits {
 public:
  Limits(CommPtr group, MeasureOptions options) : group_(std::move(group)), options_(options) {}

  /// Operations per second of the library's matrix product of 2048 x 2048 matrices, its operands in the
  /// order that it likes best. f32 and bf16.
  double gemm(DType type);
  /// Operations per second of the library's convolution, channels last: forward, gradient of the input and
  /// gradient of the weights, one after the other. The weights are in the order that it likes best.
  double conv(const ConvShape& shape);
  /// Bytes per second of a[i] = b[i] + s c[i] over arrays that no cache holds, 24 bytes counted for each i.
  double triad();
  /// Payload bytes per second of bare messages of `bytes` each.
  double messages(Index bytes, Pattern pattern);
  /// Bytes per second of a file of `bytes` in `folder` that all ranks write or read with plain system calls,
  /// this one its `part`; flushed, or out of the system's cache before (see plain_file.hpp).
  double file(double bytes, Range part, bool uneven, bool reading, const std::filesystem::path& folder);

 private:
  /// The figure of that name: amount of work in one run of `make()`'s body, over its median time.
  double rate(const std::string& name, double amount, const std::function<std::function<void()>()>& make);

  CommPtr group_;
  MeasureOptions options_;
  std::map<std::string, double> rates_;
};

}  // namespace tessera::bench
