#include "solver/ops/window/window.hpp"

#include "parallel/division.hpp"

namespace tessera {
namespace {}  // namespace

Index WindowAxis::outputs(Index n) const {
  if (kernel < 1 || stride < 1 || dilation < 1) {
    fail(ExitCode::usage, "window", "found kernel {}, stride {}, dilation {}, expected at least 1 each",
         kernel, stride, dilation);
  }
  if (transposed && boundary != Boundary::zero) {
    fail(ExitCode::usage, "window", "a transposed window has a zero boundary only");
  }
  const Index room =
      transposed ? (n - 1) * stride - pad_lo - pad_hi + reach() : n + pad_lo + pad_hi - reach() - 1;
  if (room < 0 || n < 0) {
    fail(ExitCode::usage, "window",
         "{} inputs with padding {} and {} leave no output of a window of {} taps, {} apart", n, pad_lo,
         pad_hi, kernel, dilation);
  }
  return transposed ? room + 1 : room / stride + 1;
}

Range WindowAxis::inputs_of(Range outputs, Index n) const {
  if (!transposed) {
    const Index lo = outputs.lo * stride - pad_lo;
    return {lo, outputs.empty() ? lo : (outputs.hi - 1) * stride - pad_lo + reach() + 1};
  }
  // i * stride lies in [lo + pad - reach, hi - 1 + pad]; the first input may not lie behind the first output.
  const Index first =
      std::min(ceil_div(outputs.lo + pad_lo - reach(), stride), floor_div(outputs.lo + pad_lo, stride));
  const Index lo = std::clamp<Index>(first, 0, n);
  if (outputs.empty()) return {lo, lo};
  return {lo, std::clamp<Index>(floor_div(outputs.hi - 1 + pad_lo, stride) + 1, lo, n)};
}

Range WindowAxis::slab_of(Range outputs, Index n) const {
  const Range needed = inputs_of(outputs, n);
  if (transposed || boundary != Boundary::zero) return needed;
  return {std::clamp<Index>(needed.lo, 0, n), std::clamp<Index>(needed.hi, 0, n)};
}

Range WindowAxis::outputs_of(Range inputs, Range outputs) const {
  if (inputs.empty()) return {outputs.lo, outputs.lo};
  const Range readers =
      transposed ? Range{inputs.lo * stride - pad_lo, (inputs.hi - 1) * stride - pad_lo + reach() + 1}
                 : Range{ceil_div(inputs.lo + pad_lo - reach(), stride),
                         floor_div(inputs.hi - 1 + pad_lo, stride) + 1};
  const Range among = intersect(readers, outputs);
  return among.empty() ? Range{outputs.lo, outputs.lo} : among;
}

Range WindowAxis::taps_between(Range inputs, Range outputs) const {
  // dilation * t is the distance from where a window begins to the input, or, transposed, to the output.
  const Range from = transposed ? inputs : outputs, to = transposed ? outputs : inputs;
  const Index least = to.lo - ((from.hi - 1) * stride - pad_lo),
              most = to.hi - 1 - (from.lo * stride - pad_lo);
  const Range taps = intersect({ceil_div(least, dilation), floor_div(most, dilation) + 1}, {0, kernel});
  return outputs.empty() || taps.empty() ? Range{0, 0} : taps;
}

WindowAxis WindowAxis::of_taps(Range taps) const {
  WindowAxis axis = *this;
  axis.kernel = taps.size();
  axis.pad_lo -= dilation * taps.lo;
  axis.pad_hi -= dilation * (kernel - taps.hi);
  return axis;
}

Index WindowAxis::local_pad_lo(Range outputs, Range inputs) const {
  const Index behind = outputs.lo + pad_lo - inputs.lo * stride;
  return transposed ? behind : inputs.lo - (outputs.lo * stride - pad_lo);
}

Index WindowAxis::local_pad_hi(Range outputs, Range inputs) const {
  if (transposed) return (inputs.hi - 1) * stride + reach() + 1 - pad_lo - outputs.hi;
  return (outputs.hi - 1) * stride - pad_lo + reach() + 1 - inputs.hi;
}

Partition WindowAxis::output_cuts(const Partition& inputs) const {
  const Index n = outputs(inputs.extent());
  return transposed ? inputs.transposed(stride, n) : inputs.strided(stride, n);
}

Shape window_output_shape(const Shape& input, const Window& window, Index out_channels) {
  require(input.size() == window.size() + 2, "window",
          "found shape {} and {} window axes, expected (batch, *grid, channels)", to_string(input),
          window.size());
  Shape output = input;
  for (int a = 0; a < window.size(); ++a) output[a + 1] = window[a].outputs(input[a + 1]);
  output.back() = out_channels;
  return output;
}

Layout window_output_layout(const Layout& input, const Window& window, Index out_channels) {
  if (!input) return {};
  const Shape shape = window_output_shape(input.shape(), window, out_channels);
  const int channels = input.shape().size() - 1;
  require(input.shape()[channels] == out_channels || !input.is_sharded(channels), "window",
          "sharded channels cannot change in number: found {} -> {}", input.shape()[channels], out_channels);
  Layout output = input.reduced().with_extent(channels, out_channels);
  for (int a = 0; a < window.size(); ++a) {
    output = output.with_extent(a + 1, shape[a + 1],
                                [&](const Partition& cuts) { return window[a].output_cuts(cuts); });
  }
  return output;
}

}  // namespace tessera
