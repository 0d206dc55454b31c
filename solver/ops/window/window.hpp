#pragma once

#include "parallel/axis_map.hpp"
#include "parallel/layout.hpp"

namespace tessera {

/// How the outputs of one grid axis read its inputs.
///   window:      output j reads inputs  j * stride - pad_lo + dilation * t,  t = 0 .. kernel - 1
///   transposed:  input i adds to outputs i * stride - pad_lo + dilation * t   (pads crop; zero boundary
///   only)
/// Pads may be negative; `pad_hi` of a transposed window is the padding less the output padding.
struct WindowAxis {
  Index kernel = 1;
  Index stride = 1;
  Index dilation = 1;
  Index pad_lo = 0;
  Index pad_hi = 0;
  Boundary boundary = Boundary::zero;  ///< what the pads read
  bool transposed = false;

  /// Distance between the first and the last tap.
  Index reach() const { return dilation * (kernel - 1); }
  /// Number of outputs of n inputs. Throws (usage) where there would be none, or the numbers make no sense.
  Index outputs(Index n) const;
  /// The inputs that a range of outputs reads: may overhang [0, n) for a window, does not for a transposed
  /// one, which is widened to the left where the remaining problem would have a negative padding.
  Range inputs_of(Range outputs, Index n) const;
  /// The same, of a zero boundary without what lies outside.
  Range slab_of(Range outputs, Index n) const;
  /// The outputs among `outputs` between the first and the last that read any of `inputs`.
  Range outputs_of(Range inputs, Range outputs) const;
  /// From the first to the last tap with which one of `outputs` reads one of `inputs`.
  Range taps_between(Range inputs, Range outputs) const;
  /// The window that has these taps alone.
  WindowAxis of_taps(Range taps) const;
  /// The padding that is left when `outputs` are computed from `inputs` alone.
  Index local_pad_lo(Range outputs, Range inputs) const;
  Index local_pad_hi(Range outputs, Range inputs) const;
  /// Cut points of the outputs, from those of the inputs.
  Partition output_cuts(const Partition& inputs) const;

  bool operator==(const WindowAxis&) const = default;
};

/// One WindowAxis per grid axis; grid axis a is dimension 1 + a of a (batch, *grid, channels) tensor.
using Window = InlineVector<WindowAxis>;

/// (batch, *grid, channels) -> (batch, *outputs, out_channels).
Shape window_output_shape(const Shape& input, const Window& window, Index out_channels);
/// The layout of the output. Batch cuts stay; a sharded channel axis stays if the number of channels does.
/// Partial axes are taken as Replicate. Undefined for an undefined layout.
Layout window_output_layout(const Layout& input, const Window& window, Index out_channels);

}  // namespace tessera
