#include "solver/ops/conv/conv_backend.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera::conv_direct {
namespace {

/// A problem widened to three grid axes, as plain numbers for kernels.
struct Sizes {
  Index batch, ci, co, ci_group, co_group, groups, taps;
  Index in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];

  explicit Sizes(const ConvProblem& p)
      : batch(p.batch),
        ci(p.in_channels),
        co(p.out_channels),
        ci_group(p.in_channels / p.groups),
        co_group(p.out_channels / p.groups),
        groups(p.groups),
        taps(count(p.kernel)) {
    for (int a = 0; a < 3; ++a) {
      const int from = a - (3 - p.axes());  // leading axes of one element
      in[a] = from < 0 ? 1 : p.in[from];
      out[a] = from < 0 ? 1 : p.out[from];
      kernel[a] = from < 0 ? 1 : p.kernel[from];
      stride[a] = from < 0 ? 1 : p.stride[from];
      dilation[a] = from < 0 ? 1 : p.dilation[from];
      pad[a] = from < 0 ? 0 : p.pad_lo[from];
    }
  }

  /// The input row that output position o reads at tap t, or -1 in the padding.
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

  /// The output row that reads input position i at tap t, or -1.
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

  Index in_rows() const { return batch * in[0] * in[1] * in[2]; }
  Index out_rows() const { return batch * out[0] * out[1] * out[2]; }
};

/// (Cout, Cin / groups, taps) -> (taps, Cin / groups, Cout), for kernels whose inner loop runs over outputs.
template <typename T>
Tensor outputs_last(const Sizes& n, const T* weights) {
  const Tensor packed = Tensor::empty(Shape{n.taps, n.ci_group, n.co}, dtype_of<T>);
  T* to = packed.data<T>();
  for_each(
      "conv_pack", n.taps * n.ci_group, KOKKOS_LAMBDA(const Index tc) {
        const Index t = tc / n.ci_group, c = tc % n.ci_group;
        for (Index o = 0; o < n.co; ++o) to[tc * n.co + o] = weights[(o * n.ci_group + c) * n.taps + t];
      });
  return packed;
}

/// (Cout, Cin / groups, taps) -> (taps, Cout, Cin / groups), for kernels whose inner loop runs over inputs.
template <typename T>
Tensor inputs_last(const Sizes& n, const T* weights) {
  const Tensor packed = Tensor::empty(Shape{n.taps, n.co, n.ci_group}, dtype_of<T>);
  T* to = packed.data<T>();
  for_each(
      "conv_pack", n.taps * n.co, KOKKOS_LAMBDA(const Index to_row) {
        const Index t = to_row / n.co, o = to_row % n.co;
        for (Index c = 0; c < n.ci_group; ++c)
          to[to_row * n.ci_group + c] = weights[(o * n.ci_group + c) * n.taps + t];
      });
  return packed;
}

template <typename T>
void forward_as(const Sizes& n, const T* src, const T* weights, T* dst) {
  const Tensor packed = outputs_last(n, weights);
  const T* w = packed.data<T>();
  for_each(
      "conv_forward", n.out_rows(), KOKKOS_LAMBDA(const Index o) {
        T* y = dst + o * n.co;
        for (Index c = 0; c < n.co; ++c) y[c] = T(0);
        for (Index t = 0; t < n.taps; ++t) {
          const Index i = n.input_of(o, t);
          if (i < 0) continue;
          for (Index c = 0; c < n.ci; ++c) {
            const Index group = c / n.ci_group;
            const T value = src[i * n.ci + c];
            const T* row = w + (t * n.ci_group + c % n.ci_group) * n.co + group * n.co_group;
            T* out = y + group * n.co_group;
            for (Index k = 0; k < n.co_group; ++k) out[k] += value * row[k];
          }
        }
      });
}

template <typename T>
void backward_data_as(const Sizes& n, const T* dst, const T* weights, T* src) {
  const Tensor packed = inputs_last(n, weights);
  const T* w = packed.data<T>();
  for_each(
      "conv_backward_data", n.in_rows(), KOKKOS_LAMBDA(const Index i) {
        T* x = src + i * n.ci;
        for (Index c = 0; c < n.ci; ++c) x[c] = T(0);
        for (Index t = 0; t < n.taps; ++t) {
          const Index o = n.output_of(i, t);
          if (o < 0) continue;
          for (Index k = 0; k < n.co; ++k) {
            const T value = dst[o * n.co + k];
            const T* row = w + (t * n.co + k) * n.ci_group;
            T* out = x + k / n.co_group * n.ci_group;
            for (Index c = 0; c < n.ci_group; ++c) out[c] += value * row[c];
          }
        }
      });
}

template <typename T>
void backward_weights_as(const Sizes& n, const T* src, const T* dst, T* weights) {
  const Tensor packed = Tensor::zeros(Shape{n.taps, n.ci_group, n.co}, dtype_of<T>);
  T* w = packed.data<T>();
  const Index rows = n.out_rows();
  for_each(
      "conv_backward_weights", n.taps * n.ci_group, KOKKOS_LAMBDA(const Index tc) {
        const Index t = tc / n.ci_group, c = tc % n.ci_group;
        for (Index o = 0; o < rows; ++o) {
          const Index i = n.input_of(o, t);
          if (i < 0) continue;
          for (Index group = 0; group < n.groups; ++group) {
            const T value = src[i * n.ci + group * n.ci_group + c];
            const T* y = dst + o * n.co + group * n.co_group;
            T* out = w + tc * n.co + group * n.co_group;
            for (Index k = 0; k < n.co_group; ++k) out[k] += value * y[k];
          }
        }
      });
  for_each(
      "conv_unpack", n.co, KOKKOS_LAMBDA(const Index o) {
        for (Index tc = 0; tc < n.taps * n.ci_group; ++tc) {
          const Index t = tc / n.ci_group, c = tc % n.ci_group;
          weights[(o * n.ci_group + c) * n.taps + t] = w[tc * n.co + o];
        }
      });
}

/// Calls `body` with a null pointer of the element type.
template <typename Body>
void dispatch(DType type, Body&& body) {
  if (type == DType::f64) return body(static_cast<double*>(nullptr));
  require(type == DType::f32, "conv", "found element type {}, expected f32 or f64", name_of(type));
  body(static_cast<float*>(nullptr));
}

}  // namespace

void forward(const ConvProblem& problem, const void* src, const void* weights, void* dst) {
  dispatch(problem.type, [&]<typename T>(T*) {
    forward_as(Sizes(problem), static_cast<const T*>(src), static_cast<const T*>(weights),
               static_cast<T*>(dst));
  });
}

void backward_data(const ConvProblem& problem, const void* dst, const void* weights, void* src) {
  dispatch(problem.type, [&]<typename T>(T*) {
    backward_data_as(Sizes(problem), static_cast<const T*>(dst), static_cast<const T*>(weights),
                     static_cast<T*>(src));
  });
}

void backward_weights(const ConvProblem& problem, const void* src, const void* dst, void* weights) {
  dispatch(problem.type, [&]<typename T>(T*) {
    backward_weights_as(Sizes(problem), static_cast<const T*>(src), static_cast<const T*>(dst),
                        static_cast<T*>(weights));
  });
}

}  // namespace tessera::conv_direct
