#include "solver/ops/conv/conv.hpp"

#include "solver/ops/conv/split_conv.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"

namespace tessera {
namespace {

template <typename T>
T setting(const InlineVector<T>& values, int axis, int axes, T otherwise, const char* op, const char* name) {
  if (values.empty()) return otherwise;
  if (values.size() == 1) return values[0];
  if (values.size() != axes) {
    fail(ExitCode::usage, op, "found {} values of {}, expected 1 or {}", values.size(), name, axes);
  }
  return values[axis];
}

/// Grid axes of x after a check of everything that the two operators share.
int checked_axes(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, Index groups,
                 Index in_channels, Index out_channels) {
  const int axes = x.ndim() - 2;
  if (axes < 1 || axes > 3 || weight.ndim() != x.ndim()) {
    fail(ExitCode::usage, op, "found input {} and weight {}, expected 1 to 3 grid axes in both",
         to_string(x.shape()), to_string(weight.shape()));
  }
  if (groups < 1 || x.dim(-1) != in_channels || in_channels % groups != 0 || out_channels % groups != 0) {
    fail(ExitCode::usage, op, "input {}, weight {} and {} groups do not fit together", to_string(x.shape()),
         to_string(weight.shape()), groups);
  }
  if (bias && bias.shape() != Shape{out_channels}) {
    fail(ExitCode::usage, op, "found bias {}, expected ({})", to_string(bias.shape()), out_channels);
  }
  const bool one_type =
      weight.dtype() == x.dtype() || (weight.dtype() == DType::f32 && x.dtype() == DType::bf16);
  if (!one_type || (bias && bias.dtype() != weight.dtype())) {
    fail(ExitCode::usage, op,
         "found input {}, weight {}{}, expected one element type, or weights in f32 beside bf16",
         name_of(x.dtype()), name_of(weight.dtype()),
         bias ? fmt::format(", bias {}", name_of(bias.dtype())) : "");
  }
  check_floating(op, x);
  return axes;
}

/// Whole channels and weights, nothing pending.
std::optional<Sharding> conv_rule(std::span<const Tensor> operands, const std::any&) {
  const Tensor& x = operands[0];
  const Mesh mesh = mesh_of(operands);
  Layout target = layout_on(mesh, x).reduced();
  const int axis = target.mesh_axis_of(x.ndim() - 1);
  if (axis >= 0) target = target.with_placement(axis, Replicate());
  Sharding sharding{{target}, {}};
  for (const Tensor& weight : operands.subspan(1)) {
    sharding.operands.push_back(weight ? Layout::replicated(mesh, weight.shape()) : Layout());
  }
  return sharding;
}

const Operator& convolution(const char* name, const char* signature) {
  return register_operator({.name = name,
                            .signature = signature,
                            .family = "windows",
                            .cuts = {{"batch"}, {"grid", Moves::halo}, {"channels", Moves::gather}},
                            .rule = conv_rule});
}
const Operator& kConv = convolution("conv", "conv(x, weight, bias, options)");
const Operator& kConvTranspose = convolution("conv_transpose", "conv_transpose(x, weight, bias, options)");

/// The values in the type of the products.
Tensor used(const Tensor& parameter, DType type) {
  return parameter ? parameter.detach().to(type) : Tensor();
}

Tensor run(const OperatorCall& call, const Window& window, Index out_channels, Index groups) {
  const Tensor x = call.on_mesh(0), &weight = call[1], &bias = call[2];
  const auto split = SplitConv::of(x, window, out_channels, groups, weight.dtype());
  auto [y, halo] = split->forward(x, used(weight, x.dtype()), used(bias, x.dtype()));
  const SplitConv::Wanted wanted{x.requires_grad(), weight.requires_grad() ? weight : Tensor(),
                                 bias && bias.requires_grad() ? bias : Tensor()};
  const Tensor kept_x = wanted.weight && split->reads_own() ? x.as_plain() : Tensor(),
               kept_halo = wanted.weight ? halo : Tensor();
  record(call.name(), {x, weight, bias}, y, [=, w = weight.detach()](const Tensor& gy) {
    // Rounded once more instead of kept.
    const Tensor kernel = wanted.x ? used(w, gy.dtype()) : Tensor();
    return split->backward(gy, kept_x, kept_halo, kernel, wanted);
  });
  return y;
}

}  // namespace

Tensor conv(const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in, const ConvOptions& options) {
  const Index in_channels = weight_in.dim(1) * options.groups, out_channels = weight_in.dim(0);
  const int axes = checked_axes("conv", x_in, weight_in, bias_in, options.groups, in_channels, out_channels);
  const OperatorCall call(kConv, {x_in, weight_in, bias_in});

  Window window;
  for (int a = 0; a < axes; ++a) {
    window.push_back({weight_in.dim(a + 2), setting(options.stride, a, axes, Index{1}, "conv", "stride"),
                      setting(options.dilation, a, axes, Index{1}, "conv", "dilation"),
                      setting(options.padding_lo, a, axes, Index{0}, "conv", "padding"),
                      setting(options.padding_hi, a, axes, Index{0}, "conv", "padding"),
                      setting(options.boundary, a, axes, Boundary::zero, "conv", "boundary"), false});
  }
  return run(call, window, out_channels, options.groups);
}

Tensor conv_transpose(const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in,
                      const ConvTransposeOptions& options) {
  const Index in_channels = weight_in.dim(0), out_channels = weight_in.dim(1) * options.groups;
  const char* op = "conv_transpose";
  const int axes = checked_axes(op, x_in, weight_in, bias_in, options.groups, in_channels, out_channels);
  const OperatorCall call(kConvTranspose, {x_in, weight_in, bias_in});

  Window window;
  for (int a = 0; a < axes; ++a) {
    const Index padding = setting(options.padding, a, axes, Index{0}, op, "padding");
    window.push_back({weight_in.dim(a + 2), setting(options.stride, a, axes, Index{1}, op, "stride"),
                      setting(options.dilation, a, axes, Index{1}, op, "dilation"), padding,
                      padding - setting(options.output_padding, a, axes, Index{0}, op, "output padding"),
                      Boundary::zero, true});
  }
  return run(call, window, out_channels, options.groups);
}

}  // namespace tessera
