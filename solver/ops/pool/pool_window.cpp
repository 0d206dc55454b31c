#include "solver/ops/pool/pool_window.hpp"

namespace tessera {
namespace {

Shape one_per_axis(const Shape& list, int axes, Index otherwise, const char* op, const char* what) {
  if (list.empty()) return Shape::filled(axes, otherwise);
  if (list.size() == 1) return Shape::filled(axes, list[0]);
  if (list.size() != axes) {
    fail(ExitCode::usage, op, "found {} numbers for {}, expected {}", list.size(), what, axes);
  }
  return list;
}

/// The padding above under which the last ceiled window ends with the padded axis.
Index ceiled_pad(const WindowAxis& axis, Index n) {
  const Index room = n + 2 * axis.pad_lo - axis.reach() - 1;
  if (room < 0) return axis.pad_lo;
  Index outputs = (room + axis.stride - 1) / axis.stride + 1;
  if ((outputs - 1) * axis.stride >= n + axis.pad_lo) --outputs;  // a window starts before the upper padding
  return (outputs - 1) * axis.stride + axis.reach() + 1 - n - axis.pad_lo;
}

}  // namespace

Window pool_window(const Shape& input, const PoolOptions& options, const char* op, Shape& padding) {
  const int axes = input.size() - 2;
  if (axes < 1 || axes > 3 || options.kernel.empty()) {
    fail(ExitCode::usage, op, "found shape {} and {} kernel sizes, expected (batch, *grid, channels)",
         to_string(input), options.kernel.size());
  }
  const Shape kernel = one_per_axis(options.kernel, axes, 1, op, "kernel");
  const Shape dilation = one_per_axis(options.dilation, axes, 1, op, "dilation");
  const Shape stride = options.stride.empty() ? kernel : one_per_axis(options.stride, axes, 1, op, "stride");
  padding = one_per_axis(options.padding, axes, 0, op, "padding");
  Window window;
  for (int a = 0; a < axes; ++a) {
    const Index spanned = dilation[a] * (kernel[a] - 1) + 1;
    if (kernel[a] < 1 || stride[a] < 1 || dilation[a] < 1 || padding[a] < 0 || 2 * padding[a] > spanned) {
      fail(ExitCode::usage, op,
           "found kernel {}, stride {}, dilation {}, padding {}, expected at least 1, "
           "and a padding of at most half of what the kernel spans",
           kernel[a], stride[a], dilation[a], padding[a]);
    }
    WindowAxis axis{.kernel = kernel[a],
                    .stride = stride[a],
                    .dilation = dilation[a],
                    .pad_lo = padding[a],
                    .pad_hi = padding[a]};
    if (options.ceil_mode) axis.pad_hi = ceiled_pad(axis, input[a + 1]);
    window.push_back(axis);
  }
  return window;
}

}  // namespace tessera
