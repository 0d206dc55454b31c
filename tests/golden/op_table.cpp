#include "tests/golden/op_table.hpp"

#include <functional>
#include <limits>

#include "solver/ops/attention/attention.hpp"
#include "solver/ops/conv/conv.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/interpolate/interpolate.hpp"
#include "solver/ops/linear/linear.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/ops/matmul/matmul.hpp"
#include "solver/ops/neighborhood_attention/neighborhood_attention.hpp"
#include "solver/ops/norm/norm.hpp"
#include "solver/ops/pad/pad.hpp"
#include "solver/ops/pool/pool.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/softmax/softmax.hpp"

namespace tessera::golden {
namespace {

using Tensors = std::vector<Tensor>;
using Run = std::function<Tensors(Arguments&)>;
using Table = std::map<std::string, Run>;

/// (B, C, *grid) -> (B, *grid, C).
Tensor channels_last(const Tensor& x) {
  std::vector<int> dims{0};
  for (int d = 2; d < x.ndim(); ++d) dims.push_back(d);
  dims.push_back(1);
  return permute(x, dims);
}

/// (B, *grid, C) -> (B, C, *grid).
Tensor channels_second(const Tensor& x) {
  std::vector<int> dims{0, x.ndim() - 1};
  for (int d = 1; d + 1 < x.ndim(); ++d) dims.push_back(d);
  return permute(x, dims);
}

Shape or_default(Arguments& a, const std::string& name) {
  return a.has(name) ? a.shape(name) : Shape();
}

Tensors run_conv(Arguments& a) {
  ConvOptions options;
  options.stride = or_default(a, "stride");
  options.padding_lo = options.padding_hi = or_default(a, "padding");
  options.dilation = or_default(a, "dilation");
  options.groups = a.integer("groups", 1);
  return {
      channels_second(conv(channels_last(a.input("x")), a.input("weight"), a.input("bias", true), options))};
}

Tensors run_conv_transpose(Arguments& a) {
  ConvTransposeOptions options;
  options.stride = or_default(a, "stride");
  options.padding = or_default(a, "padding");
  options.output_padding = or_default(a, "output_padding");
  options.dilation = or_default(a, "dilation");
  options.groups = a.integer("groups", 1);
  return {channels_second(
      conv_transpose(channels_last(a.input("x")), a.input("weight"), a.input("bias", true), options))};
}

Tensors run_pad(Arguments& a) {
  const Tensor x = a.input("x");
  const Shape pads = a.shape("pad");  // (lo, hi) of the last dimension, then of the one before, ...
  if (pads.size() % 2 || pads.size() / 2 > x.ndim()) {
    fail(ExitCode::input_file, "pad", "found {} pads for {} dimensions", pads.size(), x.ndim());
  }
  Shape lo = Shape::filled(x.ndim(), 0), hi = lo;
  for (int i = 0; i < pads.size() / 2; ++i) {
    lo[x.ndim() - 1 - i] = pads[2 * i];
    hi[x.ndim() - 1 - i] = pads[2 * i + 1];
  }
  const std::map<std::string, PadMode> modes{{"constant", PadMode::constant},
                                             {"reflect", PadMode::reflect},
                                             {"replicate", PadMode::replicate},
                                             {"circular", PadMode::periodic}};
  const std::string mode = a.text("mode");
  if (!modes.count(mode)) fail(ExitCode::input_file, "pad", "unknown mode '{}'", mode);
  return {pad(x, lo, hi, modes.at(mode), a.number("value", 0))};
}

PoolOptions pool_options(Arguments& a) {
  PoolOptions options;
  options.kernel = a.shape("kernel");
  options.stride = or_default(a, "stride");
  options.padding = or_default(a, "padding");
  options.dilation = or_default(a, "dilation");
  options.ceil_mode = a.flag("ceil_mode", false);
  options.count_include_pad = a.flag("count_include_pad", true);
  return options;
}

Tensors run_interpolate(Arguments& a) {
  const std::map<std::string, InterpolateMode> modes{
      {"nearest", InterpolateMode::nearest},  {"nearest-exact", InterpolateMode::nearest_exact},
      {"linear", InterpolateMode::linear},    {"bilinear", InterpolateMode::linear},
      {"trilinear", InterpolateMode::linear}, {"bicubic", InterpolateMode::cubic},
      {"area", InterpolateMode::area}};
  const std::string mode = a.text("mode");
  if (!modes.count(mode)) fail(ExitCode::input_file, "interpolate", "unknown mode '{}'", mode);
  const bool align_corners = a.has("align_corners") && a.flag("align_corners", false);
  return {channels_second(
      interpolate(channels_last(a.input("x")), a.shape("size"), modes.at(mode), align_corners))};
}

void add_spatial(Table& table) {
  for (const char* dims : {"1d", "2d", "3d"}) {
    table[std::string("conv") + dims] = run_conv;
    table[std::string("conv_transpose") + dims] = run_conv_transpose;
    table[std::string("avg_pool") + dims] = [](Arguments& a) {
      return Tensors{channels_second(avg_pool(channels_last(a.input("x")), pool_options(a)))};
    };
    table[std::string("max_pool") + dims] = [](Arguments& a) {
      return Tensors{channels_second(max_pool(channels_last(a.input("x")), pool_options(a)).values)};
    };
  }
  table["pad"] = run_pad;
  table["interpolate"] = run_interpolate;
}

Tensors run_group_norm(Arguments& a) {
  return {channels_second(group_norm(channels_last(a.input("x")), a.integer("num_groups"),
                                     a.input("weight", true), a.input("bias", true), a.number("eps", 1e-5)))};
}

Tensors run_batch_norm(Arguments& a) {
  BatchNormOptions options;
  options.training = a.flag("training", false);
  options.momentum = a.number("momentum", 0.1);
  options.eps = a.number("eps", 1e-5);
  return {channels_second(batch_norm(channels_last(a.input("x")), a.input("running_mean", true),
                                     a.input("running_var", true), a.input("weight", true),
                                     a.input("bias", true), options))};
}

void add_dense(Table& table) {
  table["linear"] = [](Arguments& a) {
    return Tensors{linear(a.input("x"), a.input("weight"), a.input("bias", true))};
  };
  table["matmul"] = [](Arguments& a) { return Tensors{matmul(a.input("a"), a.input("b"))}; };
  table["layer_norm"] = [](Arguments& a) {
    return Tensors{layer_norm(a.input("x"), a.shape("normalized_shape"), a.input("weight", true),
                              a.input("bias", true), a.number("eps", 1e-5))};
  };
  table["group_norm"] = run_group_norm;
  table["batch_norm"] = run_batch_norm;
  table["instance_norm"] = [](Arguments& a) {
    return Tensors{channels_second(instance_norm(channels_last(a.input("x")), a.input("weight", true),
                                                 a.input("bias", true), a.number("eps", 1e-5)))};
  };
}

/// (B, heads, N, d) <-> (B, N, heads, d).
Tensor swap_heads(const Tensor& x) {
  return permute(x, std::vector<int>{0, 2, 1, 3});
}

Tensors run_attention(Arguments& a) {
  AttentionOptions options;
  options.causal = a.flag("causal", false);
  if (a.has("scale")) options.scale = a.number("scale");
  if (a.flag("mask", false)) options.mask = a.input("mask");
  return {swap_heads(
      attention(swap_heads(a.input("q")), swap_heads(a.input("k")), swap_heads(a.input("v")), options))};
}

Tensors run_neighborhood_attention(Arguments& a) {
  NeighborhoodOptions options;
  options.kernel_size = a.shape("kernel_size");
  if (a.has("dilation")) options.dilation = a.shape("dilation");
  if (a.has("scale")) options.scale = a.number("scale");
  return {neighborhood_attention(a.input("q"), a.input("k"), a.input("v"), options)};
}

void add_attention(Table& table) {
  table["scaled_dot_product_attention"] = run_attention;
  table["neighborhood_attention"] = run_neighborhood_attention;
}

void add_elementwise(Table& table) {
  const auto unary = [&](const char* name, Tensor (*op)(const Tensor&)) {
    table[name] = [op](Arguments& a) { return Tensors{op(a.input("x"))}; };
  };
  unary("relu", relu);
  unary("elu", elu);
  unary("gelu", gelu);
  unary("gelu_tanh", gelu_tanh);
  unary("silu", silu);
  unary("sigmoid", sigmoid);
  unary("softplus", softplus);
  unary("tanh", tanh);
  unary("exp", exp);
  unary("log", log);
  unary("sqrt", sqrt);
  unary("square", square);
  unary("abs", abs);
  unary("neg", neg);
  table["leaky_relu"] = [](Arguments& a) {
    return Tensors{leaky_relu(a.input("x"), a.number("negative_slope", 0.01))};
  };
  const auto binary = [&](const char* name, Tensor (*op)(const Tensor&, const Tensor&)) {
    table[name] = [op](Arguments& a) { return Tensors{op(a.input("a"), a.input("b"))}; };
  };
  binary("add", add);
  binary("sub", sub);
  binary("mul", mul);
  binary("div", div);
  binary("maximum", maximum);
  binary("minimum", minimum);
  table["clamp"] = [](Arguments& a) {
    const double none = std::numeric_limits<double>::infinity();
    return Tensors{
        clamp(a.input("x"), a.has("min") ? a.number("min") : -none, a.has("max") ? a.number("max") : none)};
  };
  table["where"] = [](Arguments& a) {
    return Tensors{where(a.input("condition").to(DType::u8), a.input("a"), a.input("b"))};
  };
}

void add_reductions(Table& table) {
  using Reduction = Tensor (*)(const Tensor&, std::span<const int>, bool);
  const auto reduction = [&](const char* name, Reduction op) {
    table[name] = [op](Arguments& a) {
      return Tensors{op(a.input("x"), a.dims("dims"), a.flag("keepdim", false))};
    };
  };
  reduction("sum", sum);
  reduction("mean", mean);
  reduction("amax", amax);
  reduction("amin", amin);
  table["var"] = [](Arguments& a) {
    return Tensors{var(a.input("x"), a.dims("dims"), a.flag("keepdim", false), a.flag("unbiased", true))};
  };
  const auto along = [&](const char* name, Tensor (*op)(const Tensor&, int)) {
    table[name] = [op](Arguments& a) {
      return Tensors{op(a.input("x"), static_cast<int>(a.integer("dim")))};
    };
  };
  along("softmax", softmax);
  along("log_softmax", log_softmax);
  along("cumsum", cumsum);
  const auto loss = [&](const char* name, Tensor (*op)(const Tensor&, const Tensor&)) {
    table[name] = [op](Arguments& a) { return Tensors{op(a.input("x"), a.input("target"))}; };
  };
  loss("mse_loss", mse_loss);
  loss("l1_loss", l1_loss);
  loss("relative_l2_loss", relative_l2_loss);
  loss("cross_entropy", cross_entropy);
}

Tensors run_slice(Arguments& a) {
  return {slice(a.input("x"), static_cast<int>(a.integer("dim")), a.integer("start"), a.integer("stop"),
                a.integer("step", 1))};
}

Tensors run_split(Arguments& a) {
  const Shape sizes = a.shape("sizes");
  return split(a.input("x"), static_cast<int>(a.integer("dim")), {sizes.begin(), sizes.end()});
}

void add_shape(Table& table) {
  table["reshape"] = [](Arguments& a) { return Tensors{reshape(a.input("x"), a.shape("shape"))}; };
  table["permute"] = [](Arguments& a) { return Tensors{permute(a.input("x"), a.dims("dims"))}; };
  table["cat"] = [](Arguments& a) {
    return Tensors{cat(Tensors{a.input("a"), a.input("b")}, static_cast<int>(a.integer("dim")))};
  };
  table["select"] = [](Arguments& a) {
    return Tensors{select(a.input("x"), static_cast<int>(a.integer("dim")), a.integer("index"))};
  };
  table["unbind"] = [](Arguments& a) { return unbind(a.input("x"), static_cast<int>(a.integer("dim"))); };
  table["roll"] = [](Arguments& a) {
    return Tensors{roll(a.input("x"), static_cast<int>(a.integer("dim")), a.integer("shift"))};
  };
  table["flip"] = [](Arguments& a) { return Tensors{flip(a.input("x"), a.dims("dims"))}; };
  table["index_select"] = [](Arguments& a) {
    return Tensors{index_select(a.input("x"), static_cast<int>(a.integer("dim")), a.input("index"))};
  };
  table["gather"] = [](Arguments& a) {
    return Tensors{gather(a.input("x"), static_cast<int>(a.integer("dim")), a.input("index"))};
  };
  table["squeeze"] = [](Arguments& a) {
    return Tensors{squeeze(a.input("x"), static_cast<int>(a.integer("dim")))};
  };
  table["unsqueeze"] = [](Arguments& a) {
    return Tensors{unsqueeze(a.input("x"), static_cast<int>(a.integer("dim")))};
  };
  table["slice"] = run_slice;
  table["split"] = run_split;
}

const Table& table() {
  static const Table made = [] {
    Table t;
    add_spatial(t);
    add_dense(t);
    add_attention(t);
    add_elementwise(t);
    add_reductions(t);
    add_shape(t);
    return t;
  }();
  return made;
}

}  // namespace

Tensors run_op(const std::string& op, Arguments arguments) {
  const auto found = table().find(op);
  if (found == table().end()) fail(ExitCode::input_file, "golden", "unknown operator '{}'", op);
  const Tensors outputs = found->second(arguments);
  arguments.expect_all_used();
  return outputs;
}

}  // namespace tessera::golden
