#pragma once

#include "parallel/dtype.hpp"
#include "parallel/inline_vector.hpp"

// Internal to solver/ops/conv: one rank's convolution on contiguous buffers.
namespace tessera {

/// src (batch, *in, in_channels), weights (out_channels, in_channels / groups, *kernel), dst (batch, *out,
/// out_channels); padding is zero. `pad_hi` may be negative: inputs at the high end that no window reads.
struct ConvProblem {
  DType type = DType::f32;
  DType weight_gradient_type = type;  ///< of what backward_weights() writes; f32 beside bf16, else `type`
  Index batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  Shape in, out, kernel, stride, dilation, pad_lo, pad_hi;

  int axes() const { return in.size(); }
  Index src_count() const { return batch * count(in) * in_channels; }
  Index dst_count() const { return batch * count(out) * out_channels; }
  bool operator==(const ConvProblem&) const = default;
  Index weight_count() const { return out_channels * (in_channels / groups) * count(kernel); }
};

/// dst = bias + src * weights; bias may be null. Empty sources and destinations are legal here and below.
void conv_forward(const ConvProblem& problem, const void* src, const void* weights, const void* bias,
                  void* dst);
/// src = transposed convolution of dst, plus `bias` (in_channels), which may be null.
void conv_backward_data(const ConvProblem& problem, const void* dst, const void* weights, const void* bias,
                        void* src);
/// Gradients of the weights and, unless null, of the bias (out_channels).
void conv_backward_weights(const ConvProblem& problem, const void* src, const void* dst, void* weights,
                           void* bias);
/// Addends that sum_rows keeps per channel, in double.
inline constexpr Index kRowAddends = 64;
/// sums[c] = sum over rows of values (rows, channels), accumulated in double in a fixed order, of type `out`.
void sum_rows(DType type, Index rows, Index channels, const void* values, DType out, void* sums);
/// values (rows, channels) += bias, or = bias.
void add_rows(DType type, Index rows, Index channels, const void* bias, void* values);
void fill_rows(DType type, Index rows, Index channels, const void* bias, void* values);

/// Kokkos reference in f32 and f64: any pads, dilations and groups.
namespace conv_direct {
void forward(const ConvProblem& problem, const void* src, const void* weights, void* dst);
void backward_data(const ConvProblem& problem, const void* dst, const void* weights, void* src);
void backward_weights(const ConvProblem& problem, const void* src, const void* dst, void* weights);
}  // namespace conv_direct

/// oneDNN on host-accessible memory, f32 and bf16.
namespace conv_onednn {
bool supports(const ConvProblem& problem);
/// Whether backward_weights() may be used as well.
bool supports_weights(const ConvProblem& problem);
void forward(const ConvProblem& problem, const void* src, const void* weights, const void* bias, void* dst);
void backward_data(const ConvProblem& problem, const void* dst, const void* weights, void* src);
void backward_weights(const ConvProblem& problem, const void* src, const void* dst, void* weights,
                      void* bias);
}  // namespace conv_onednn

}  // namespace tessera
