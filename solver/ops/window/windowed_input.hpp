#pragma once

#include <memory>

#include "solver/ops/window/window.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera {

/// Who fills what lies beyond the ends of an axis with a zero boundary.
enum class Edges : std::uint8_t {
  outside,  ///< the kernel: the slab ends with the input, and local_pad() says how far the windows overhang
  filled,   ///< the slab: it holds the fill value there, and local_pad() is 0
};

/// The input of a windowed operator as one rank sees it: of a tensor (batch, *grid, channels) under any
/// layout, plain included, the slab that this rank's outputs read. Made from the layout alone; exchange plans
/// are cached, so construction is cheap for a pattern that was met before.
///
///     input cut at c      ....... c .......        window 3, stride 1, padding 1
///     slab of the left    ....... c .
///     slab of the right         . c .......
class WindowedInput {
 public:
  /// `out_channels` is the channel count of the output.
  WindowedInput(const Shape& shape, const Layout& layout, const Window& window, Index out_channels,
                Edges edges = Edges::outside);
  WindowedInput(const Tensor& x, const Window& window, Index out_channels, Edges edges = Edges::outside)
      : WindowedInput(x.shape(), x.layout(), window, out_channels, edges) {}

  /// Shape of the whole output, and its layout (undefined where the input is plain).
  const Shape& output_shape() const;
  const Layout& output_layout() const;
  /// Uninitialised storage for the output; plain where the input is.
  Tensor empty_output(DType type) const;

  /// The local problem: local batch, slab, this rank's outputs, and how far windows overhang the slab. Where
  /// the slab or the outputs are empty the pads mean nothing and may be negative.
  const Shape& slab_shape() const;          ///< (local batch, *slab, local channels)
  const Shape& local_output_shape() const;  ///< (local batch, *outputs, out_channels)
  Range slab_range(int grid_axis) const;    ///< input indices of the slab; outside [0, n) under a boundary
  Range output_range(int grid_axis) const;  ///< output indices of this rank
  Index local_pad_lo(int grid_axis) const;
  Index local_pad_hi(int grid_axis) const;

  /// True if no rank sends anything.
  bool is_local() const;
  /// True if gather() gives the storage of the input itself.
  bool shares_input() const;

  /// The slab, a plain tensor. `fill` is what Edges::filled puts beyond the ends.
  Tensor gather(const Tensor& x, double fill = 0) const;
  /// The adjoint: the gradient of the input, laid out as the input, from the gradient of the slab.
  Tensor scatter_add(const Tensor& slab_gradient) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tessera
