#include <limits>

#include "solver/ops/pool/pool_window.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/window/windowed_input.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

/// The local problem widened to three grid axes, as plain numbers for kernels.
struct Sizes {
  Index batch = 0, channels = 0, taps = 1;
  Index in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  Index origin[3], whole[3];  // of the slab in the global grid, and extents of that

  /// The slab row that output row o reads at tap t, or -1 outside.
  KOKKOS_INLINE_FUNCTION Index input_of(Index o, Index t) const {
    Index row = o / (out[0] * out[1] * out[2]);
    const Index o_axis[3] = {o / (out[1] * out[2]) % out[0], o / out[2] % out[1], o % out[2]};
    const Index t_axis[3] = {t / (kernel[1] * kernel[2]), t / kernel[2] % kernel[1], t % kernel[2]};
    for (int a = 0; a < 3; ++a) {
      const Index i = o_axis[a] * stride[a] - pad[a] + dilation[a] * t_axis[a];
      if (i < 0 || i >= in[a]) return -1;
      row = row * in[a] + i;
    }
    return row;
  }

  /// The output row that reads slab row i at tap t, or -1.
  KOKKOS_INLINE_FUNCTION Index output_of(Index i, Index t) const {
    Index row = i / (in[0] * in[1] * in[2]);
    const Index i_axis[3] = {i / (in[1] * in[2]) % in[0], i / in[2] % in[1], i % in[2]};
    const Index t_axis[3] = {t / (kernel[1] * kernel[2]), t / kernel[2] % kernel[1], t % kernel[2]};
    for (int a = 0; a < 3; ++a) {
      const Index o = i_axis[a] + pad[a] - dilation[a] * t_axis[a];
      if (o < 0 || o % stride[a] != 0 || o / stride[a] >= out[a]) return -1;
      row = row * out[a] + o / stride[a];
    }
    return row;
  }

  /// Position of a slab row in the global grid.
  KOKKOS_INLINE_FUNCTION Index global_of(Index i) const {
    const Index z = i / (in[1] * in[2]) % in[0], y = i / in[2] % in[1], x = i % in[2];
    return ((z + origin[0]) * whole[1] + y + origin[1]) * whole[2] + x + origin[2];
  }

  Index in_rows() const { return batch * in[0] * in[1] * in[2]; }
  Index out_rows() const { return batch * out[0] * out[1] * out[2]; }
};

Sizes sizes_of(const WindowedInput& input, const Window& window, const Shape& shape) {
  Sizes n;
  const Shape slab = input.slab_shape(), out = input.local_output_shape();
  n.batch = slab[0];
  n.channels = slab.back();
  for (int a = 0; a < 3; ++a) {
    const int from = a - (3 - window.size());  // leading axes of one element
    const bool real = from >= 0;
    n.in[a] = real ? slab[from + 1] : 1;
    n.out[a] = real ? out[from + 1] : 1;
    n.kernel[a] = real ? window[from].kernel : 1;
    n.stride[a] = real ? window[from].stride : 1;
    n.dilation[a] = real ? window[from].dilation : 1;
    n.pad[a] = real ? input.local_pad_lo(from) : 0;
    n.origin[a] = real ? input.slab_range(from).lo : 0;
    n.whole[a] = real ? shape[from + 1] : 1;
    n.taps *= n.kernel[a];
  }
  return n;
}

/// y and the global positions of the maxima, from the slab.
template <typename T>
void forward(const Sizes& n, T* y, std::int64_t* index, const T* x) {
  for_each(
      "max_pool", n.out_rows(), KOKKOS_LAMBDA(Index o) {
        T* top = y + o * n.channels;
        std::int64_t* at = index + o * n.channels;
        bool first = true;
        for (Index t = 0; t < n.taps; ++t) {
          const Index i = n.input_of(o, t);
          if (i < 0) continue;
          const T* row = x + i * n.channels;
          const Index global = n.global_of(i);
          for (Index c = 0; c < n.channels; ++c) {
            const auto value = load(row[c]);
            if (first || value > load(top[c]) || value != value) {
              top[c] = row[c];
              at[c] = global;
            }
          }
          first = false;
        }
        for (Index c = 0; first && c < n.channels; ++c) {  // a ceiled window beyond the last element
          store(top[c], -std::numeric_limits<Compute<T>>::infinity());
          at[c] = -1;
        }
      });
}

/// Gradient of the slab: each of its rows looks at the windows that it lies in.
template <typename T>
void backward(const Sizes& n, T* gx, const T* gy, const std::int64_t* index) {
  for_each(
      "max_pool_gradient", n.in_rows(), KOKKOS_LAMBDA(Index i) {
        const Index global = n.global_of(i);
        for (Index c = 0; c < n.channels; ++c) {
          Compute<T> sum = 0;
          for (Index t = 0; t < n.taps; ++t) {
            const Index o = n.output_of(i, t);
            if (o >= 0 && index[o * n.channels + c] == global) sum += load(gy[o * n.channels + c]);
          }
          store(gx[i * n.channels + c], sum);
        }
      });
}

const Operator& kMaxPool = register_operator({.name = "max_pool",
                                              .signature = "max_pool(x, options)",
                                              .family = "windows",
                                              .cuts = {{"batch"}, {"grid", Moves::halo}, {"channels"}},
                                              .rule = keep_rule()});

}  // namespace

MaxPooled max_pool(const Tensor& x_in, const PoolOptions& options) {
  check_floating("max_pool", x_in);
  const OperatorCall call(kMaxPool, {x_in});
  const Tensor& x = call[0];
  Shape padding;
  const Window window = pool_window(x_in.shape(), options, "max_pool", padding);
  const WindowedInput input(x, window, x.dim(-1));
  const Sizes n = sizes_of(input, window, x.shape());
  MaxPooled result{input.empty_output(x.dtype()), input.empty_output(DType::i64)};
  const Tensor slab = input.gather(x.detach());
  if (result.values.local_count() > 0) {
    dispatch_floating(x.dtype(), "max_pool", [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      forward(n, result.values.data<T>(), result.indices.data<std::int64_t>(), slab.data<T>());
    });
  }
  record("max_pool", {x}, result.values, [input, n, index = result.indices](const Tensor& gy) {
    const Tensor gx = Tensor::zeros(input.slab_shape(), gy.dtype());
    if (gx.local_count() > 0 && gy.local_count() > 0) {
      dispatch_floating(gy.dtype(), "max_pool", [&](auto* null) {
        using T = std::remove_pointer_t<decltype(null)>;
        backward(n, gx.data<T>(), gy.data<T>(), index.data<std::int64_t>());
      });
    }
    return Gradients{input.scatter_add(gx)};
  });
  return result;
}

}  // namespace tessera
