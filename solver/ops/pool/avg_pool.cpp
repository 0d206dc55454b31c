#include "solver/ops/pool/pool_window.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/taps/axis_taps.hpp"
#include "solver/ops/window/windowed_input.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

/// The averages of one axis. The number of elements of a window is a product over the axes, so that averages
/// are, too. Windows that overhang the upper padding (ceiled ones) count as far as it.
AxisTaps averages(const WindowAxis& axis, Index n, Index padding, bool count_pad, Range outputs, Range slab) {
  AxisTaps taps(slab.size());
  for (Index o = outputs.lo; o < outputs.hi; ++o) {
    const Index start = o * axis.stride - axis.pad_lo;
    const Range inside = intersect({start, start + axis.kernel}, {0, n});
    const Index counted = std::min(start + axis.kernel, n + padding) - start;
    const double weight = 1.0 / static_cast<double>(count_pad ? counted : inside.size());
    for (Index i = inside.lo; i < inside.hi; ++i) taps.add(i - slab.lo, weight);
    taps.end_output();
  }
  return taps;
}

const Operator& kAvgPool = register_operator({.name = "avg_pool",
                                              .signature = "avg_pool(x, options)",
                                              .family = "windows",
                                              .cuts = {{"batch"}, {"grid", Moves::halo}, {"channels"}},
                                              .rule = keep_rule()});

}  // namespace

Tensor avg_pool(const Tensor& x_in, const PoolOptions& options) {
  check_floating("avg_pool", x_in);
  const OperatorCall call(kAvgPool, {x_in});
  const Tensor& x = call[0];
  Shape padding;
  const Window window = pool_window(x_in.shape(), options, "avg_pool", padding);
  for (const WindowAxis& axis : window) {
    if (axis.dilation != 1) fail(ExitCode::usage, "avg_pool", "found dilation {}, expected 1", axis.dilation);
  }
  const WindowedInput input(x, window, x.dim(-1));
  // A rank without outputs needs no slab and no taps.
  const bool idle = count(input.local_output_shape()) == 0;
  std::vector<AxisTaps> taps;
  for (int a = 0; a < window.size() && !idle; ++a) {
    taps.push_back(averages(window[a], x.dim(a + 1), padding[a], options.count_include_pad,
                            input.output_range(a), input.slab_range(a)));
  }
  Tensor y = input.empty_output(x.dtype());
  const Tensor slab = input.gather(x.detach());
  if (!idle) y.copy_from(apply_taps(slab, taps));
  record("avg_pool", {x}, y, [input, taps, idle](const Tensor& gy) {
    if (idle) return Gradients{input.scatter_add(Tensor::zeros(input.slab_shape(), gy.dtype()))};
    std::vector<AxisTaps> back;
    for (const AxisTaps& axis : taps) back.push_back(axis.transposed());
    return Gradients{input.scatter_add(apply_taps(gy.as_plain(), back))};
  });
  return y;
}

}  // namespace tessera
