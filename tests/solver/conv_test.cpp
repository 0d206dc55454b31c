// Convolutions: against loops written from the definition, and every layout against one process.
#include <functional>

#include <gtest/gtest.h>

#include "solver/ops/conv/conv.hpp"
#include "solver/ops/window/window_parts.hpp"
#include "solver/tensor/autograd.hpp"
#include "tests/support/sharded.hpp"

namespace tessera {
namespace {

using testing::Cuts;
using testing::pick;
using testing::Random;
using testing::tensor_of;
using testing::values_of;
using Values = std::vector<double>;

struct Case {
  bool transposed = false;
  Shape x, weight, output;
  ConvOptions options;
  ConvTransposeOptions transpose_options;
  Values x_values, weight_values, bias_values, cotangent;
  bool has_bias = true;
  Splitting splitting = Splitting::always;

  int axes() const { return x.size() - 2; }
  Index out_channels() const { return output.back(); }
  Tensor run(const Tensor& input, const Tensor& w, const Tensor& b) const {
    const SplittingScope scope(splitting);
    return transposed ? conv_transpose(input, w, b, transpose_options) : conv(input, w, b, options);
  }
  std::string text() const {
    std::string t =
        std::string(transposed ? "conv_transpose " : "conv ") + to_string(x) + " by " + to_string(weight);
    const ConvOptions& o = options;
    if (transposed) {
      return t + " stride " + to_string(transpose_options.stride) + " padding " +
             to_string(transpose_options.padding) + " + " + to_string(transpose_options.output_padding) +
             " dilation " + to_string(transpose_options.dilation);
    }
    t += " stride " + to_string(o.stride) + " padding " + to_string(o.padding_lo) + " " +
         to_string(o.padding_hi) + " dilation " + to_string(o.dilation) + " groups " +
         std::to_string(o.groups) + " boundary";
    for (Boundary b : o.boundary) t += " " + std::to_string(static_cast<int>(b));
    return t + (splitting == Splitting::always ? " split" : "");
  }
};

/// Pads of one axis that its boundary can serve.
std::pair<Index, Index> random_pads(Random& random, Index n, Boundary boundary) {
  switch (boundary) {
    case Boundary::zero:
      return {pick(random, -1, 3), pick(random, -1, 3)};
    case Boundary::reflect:
      return {pick(random, 0, n - 1), pick(random, 0, n - 1)};
    default:
      return {pick(random, 0, n + 2), pick(random, 0, n + 2)};
  }
}

/// Few groups, or as many as a vector is long.
Index random_groups(Random& random) {
  return pick(random, 0, 5) == 0 ? 16 : pick(random, 1, 3);
}

/// Channels of a group come in multiples of this: libraries take other ways for whole vectors.
Index channel_unit(Random& random, Index groups) {
  return groups <= 3 && pick(random, 0, 3) == 0 ? 16 : 1;
}

Case random_conv(Random& random) {
  for (;;) {
    Case c;
    const int axes = static_cast<int>(pick(random, 1, 3));
    c.options.groups = random_groups(random);
    const Index wide = channel_unit(random, c.options.groups);
    const Index ci = pick(random, 1, 3) * wide, co = pick(random, 1, 3) * wide * c.options.groups;
    c.x = {pick(random, 1, 2)};
    c.weight = {co, ci};
    c.output = {c.x[0]};
    bool fits = true;
    for (int a = 0; a < axes; ++a) {
      const Index n = pick(random, 1, axes == 3 ? 7 : 14), k = pick(random, 1, 4), s = pick(random, 1, 3),
                  d = pick(random, 1, 2);
      const auto boundary = static_cast<Boundary>(pick(random, 0, 7) < 4 ? 0 : pick(random, 0, 3));
      const auto [lo, hi] = random_pads(random, n, boundary);
      c.x.push_back(n);
      c.weight.push_back(k);
      c.options.stride.push_back(s);
      c.options.dilation.push_back(d);
      c.options.padding_lo.push_back(lo);
      c.options.padding_hi.push_back(hi);
      c.options.boundary.push_back(boundary);
      const Index room = n + lo + hi - d * (k - 1) - 1;
      fits = fits && room >= 0;
      c.output.push_back(room / s + 1);
    }
    if (!fits) continue;
    c.x.push_back(ci * c.options.groups);
    c.output.push_back(co);
    return c;
  }
}

Case random_transpose(Random& random) {
  for (;;) {
    Case c;
    c.transposed = true;
    const int axes = static_cast<int>(pick(random, 1, 3));
    auto& o = c.transpose_options;
    o.groups = random_groups(random);
    const Index wide = channel_unit(random, o.groups);
    const Index ci = pick(random, 1, 3) * wide * o.groups, co = pick(random, 1, 3) * wide;
    c.x = {pick(random, 1, 2)};
    c.weight = {ci, co};
    c.output = {c.x[0]};
    bool fits = true;
    for (int a = 0; a < axes; ++a) {
      const Index n = pick(random, 1, axes == 3 ? 5 : 9), k = pick(random, 1, 4), s = pick(random, 1, 4),
                  d = pick(random, 1, 2), p = pick(random, 0, 2), extra = pick(random, 0, std::max(s, d) - 1);
      c.x.push_back(n);
      c.weight.push_back(k);
      o.stride.push_back(s);
      o.dilation.push_back(d);
      o.padding.push_back(p);
      o.output_padding.push_back(extra);
      c.output.push_back((n - 1) * s - 2 * p + d * (k - 1) + extra + 1);
      fits = fits && c.output.back() > 0;
    }
    if (!fits) continue;
    c.x.push_back(ci);
    c.output.push_back(co * o.groups);
    return c;
  }
}

Case random_case(std::uint64_t seed) {
  Random random(seed * 7919 + 17);
  Case c = seed % 3 == 2 ? random_transpose(random) : random_conv(random);
  c.has_bias = pick(random, 0, 3) > 0;
  c.splitting = seed % 2 ? Splitting::always : Splitting::never;
  c.x_values = testing::random_values(random, count(c.x));
  c.weight_values = testing::random_values(random, count(c.weight));
  c.bias_values = testing::random_values(random, c.out_channels());
  c.cotangent = testing::random_values(random, count(c.output));
  return c;
}

struct Outcome {
  Values y, gx, gw, gb;
};

/// Output and gradients, of global values, with x laid out as `layout`.
Outcome evaluate(const Case& c, DType type, const Layout& layout = {}, const Mesh& weight_mesh = {}) {
  const auto weight_layout = [&](const Shape& s) {
    return weight_mesh ? Layout::replicated(weight_mesh, s) : Layout();
  };
  const Tensor x = tensor_of(c.x_values, c.x, type, layout).set_requires_grad();
  const Tensor w = tensor_of(c.weight_values, c.weight, type, weight_layout(c.weight)).set_requires_grad();
  const Shape bias_shape{c.out_channels()};
  const Tensor b =
      c.has_bias ? tensor_of(c.bias_values, bias_shape, type, weight_layout(bias_shape)).set_requires_grad()
                 : Tensor();
  const Tensor y = c.run(x, w, b);
  EXPECT_EQ(y.shape(), c.output) << c.text();
  y.backward(tensor_of(c.cotangent, c.output, type, y.is_shard() ? y.layout().reduced() : Layout()));
  EXPECT_TRUE(x.grad().layout() == x.layout()) << c.text();
  EXPECT_EQ(w.grad().is_shard(), static_cast<bool>(weight_mesh));
  return {values_of(y), values_of(x.grad()), values_of(w.grad()), b ? values_of(b.grad()) : Values()};
}

void compare(const Outcome& got, const Outcome& want, double rtol, double atol, const std::string& what) {
  testing::expect_close(got.y, want.y, rtol, atol, what + ", output");
  testing::expect_close(got.gx, want.gx, rtol, atol, what + ", input gradient");
  testing::expect_close(got.gw, want.gw, rtol, atol, what + ", weight gradient");
  testing::expect_close(got.gb, want.gb, rtol, atol, what + ", bias gradient");
}

/// Calls body(output position, tap, input position) for every combination, positions being row numbers of
/// (batch, *grid).
void for_each_tap(const Case& c, const std::function<void(Index, Index, Index)>& body) {
  const int axes = c.axes();
  Shape small = c.transposed ? c.x : c.output;  // the tensor whose positions step by the stride
  const Shape& large = c.transposed ? c.output : c.x;
  const Shape& stride = c.transposed ? c.transpose_options.stride : c.options.stride;
  const Shape& dilation = c.transposed ? c.transpose_options.dilation : c.options.dilation;
  const Shape& padding = c.transposed ? c.transpose_options.padding : c.options.padding_lo;
  Index taps = 1;
  for (int a = 0; a < axes; ++a) taps *= c.weight[a + 2];
  small.back() = 1;
  for (Index p = 0; p < count(small); ++p) {
    for (Index t = 0; t < taps; ++t) {
      Index rest_p = p, rest_t = t, at = 0, scale = 1;
      bool inside = true;
      for (int a = axes - 1; a >= 0; --a) {
        const Index n = large[a + 1], extent = small[a + 1], kernel = c.weight[a + 2];
        Index i = rest_p % extent * stride[a] - padding[a] + rest_t % kernel * dilation[a];
        rest_p /= extent;
        rest_t /= kernel;
        switch (c.transposed ? Boundary::zero : c.options.boundary[a]) {
          case Boundary::periodic:
            i = ((i % n) + n) % n;
            break;
          case Boundary::replicate:
            i = std::clamp<Index>(i, 0, n - 1);
            break;
          case Boundary::reflect:
            i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
            break;
          default:
            inside = inside && i >= 0 && i < n;
        }
        at += i * scale;
        scale *= n;
      }
      if (inside) body(c.transposed ? rest_p * scale + at : p, t, c.transposed ? p : rest_p * scale + at);
    }
  }
}

/// Output and gradients by loops from the definition.
Outcome by_loops(const Case& c) {
  const Index groups = c.transposed ? c.transpose_options.groups : c.options.groups;
  const Index ci = c.x.back(), co = c.out_channels(), ci_group = ci / groups, co_group = co / groups;
  const Index taps = count(c.weight) / (c.weight[0] * c.weight[1]);
  Outcome r{Values(c.cotangent.size()), Values(c.x_values.size()), Values(c.weight_values.size()), {}};
  if (c.has_bias) r.gb.resize(c.bias_values.size());
  for (std::size_t o = 0; o < r.y.size() && c.has_bias; ++o) {
    r.y[o] = c.bias_values[o % static_cast<std::size_t>(co)];
    r.gb[o % static_cast<std::size_t>(co)] += c.cotangent[o];
  }
  for_each_tap(c, [&](Index o, Index t, Index i) {
    for (Index k = 0; k < co; ++k) {
      for (Index m = 0; m < ci_group; ++m) {
        const Index in = k / co_group * ci_group + m;
        const auto w = static_cast<std::size_t>(
            (c.transposed ? in * co_group + k % co_group : k * ci_group + m) * taps + t);
        const auto y = static_cast<std::size_t>(o * co + k), x = static_cast<std::size_t>(i * ci + in);
        r.y[y] += c.weight_values[w] * c.x_values[x];
        r.gx[x] += c.weight_values[w] * c.cotangent[y];
        r.gw[w] += c.cotangent[y] * c.x_values[x];
      }
    }
  });
  return r;
}

TEST(Conv, ReferenceEqualsTheDefinition) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Case c = random_case(seed);
    compare(evaluate(c, DType::f64), by_loops(c), 1e-13, 1e-13, c.text());
  }
}

TEST(Conv, SinglePrecisionEqualsTheReference) {
  for (std::uint64_t seed = 200; seed < 600; ++seed) {
    const Case c = random_case(seed);
    compare(evaluate(c, DType::f32), by_loops(c), 3e-6, 1e-6, c.text() + " f32");
  }
}

TEST(Conv, Bfloat16EqualsTheReference) {
  for (std::uint64_t seed = 300; seed < 500; ++seed) {
    const Case c = random_case(seed);
    compare(evaluate(c, DType::bf16), by_loops(c), 2e-2, 1e-2, c.text() + " bf16");
  }
}

TEST(Conv, EveryLayoutEqualsOneProcess) {
  for (std::uint64_t seed = 400; seed < 520; ++seed) {
    Case c = random_case(seed);
    Random random(seed);
    const bool single = seed % 4 == 3;
    const DType type = single ? DType::f32 : DType::f64;
    const Outcome want = evaluate(c, type);
    for (const Mesh& mesh : testing::meshes()) {
      std::vector<int> dims;
      for (int a = 0; a < c.axes(); ++a) dims.push_back(a + 1);
      if (pick(random, 0, 3) == 0) dims.push_back(0);
      if (pick(random, 0, 7) == 0) dims.push_back(c.axes() + 1);
      for (Cuts cuts : {Cuts::even, Cuts::uneven, Cuts::empty}) {
        const Layout layout = testing::random_layout(random, mesh, c.x, dims, cuts);
        const bool weights_on_mesh = pick(random, 0, 2) == 0;
        for (const Splitting splitting : {Splitting::never, Splitting::always}) {
          c.splitting = splitting;
          compare(evaluate(c, type, layout, weights_on_mesh ? mesh : Mesh()), want, single ? 3e-6 : 1e-13,
                  single ? 1e-6 : 1e-13, c.text() + " on " + to_string(layout));
        }
      }
    }
  }
}

/// Bits of output and gradients of a 3 x 3 convolution of a grid that is worth splitting.
std::vector<std::vector<float>> bits_of_run(const Mesh& mesh, Splitting splitting) {
  const SplittingScope scope(splitting);
  const Shape shape{1, 64 * mesh.size(), 48, 64};
  Random random(5);
  const Tensor x = tensor_of(testing::random_values(random, count(shape)), shape, DType::f32,
                             Layout::even(mesh, {Shard(1)}, shape))
                       .set_requires_grad();
  const Shape weight{8, 64, 3, 3};
  const Tensor w = tensor_of(testing::random_values(random, count(weight)), weight, DType::f32);
  w.set_requires_grad();
  const Tensor y = conv(x, w, {}, {.padding_lo = {1}, .padding_hi = {1}});
  y.backward(tensor_of(testing::random_values(random, count(y.shape())), y.shape(), DType::f32, y.layout()));
  return {y.to_host<float>(), x.grad().to_host<float>(), w.grad().to_host<float>()};
}

TEST(Conv, SplitsWhereThatIsWorthItAndGivesTheSameBitsTwice) {
  const Mesh& mesh = testing::meshes().front();
  const auto automatic = bits_of_run(mesh, Splitting::automatic);
  EXPECT_EQ(automatic, bits_of_run(mesh, Splitting::automatic));
  EXPECT_EQ(automatic, bits_of_run(mesh, Splitting::always));
}

TEST(Conv, PlainInputMeetsReplicatedWeight) {
  const Case c = random_case(3);
  compare(evaluate(c, DType::f64, {}, testing::meshes().front()), evaluate(c, DType::f64), 1e-13, 1e-13,
          c.text());
}

TEST(Conv, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros(Shape{1, 4, 4, 2}), w = Tensor::zeros(Shape{3, 2, 3, 3});
  EXPECT_THROW(conv(x, Tensor::zeros(Shape{3, 1, 3, 3}), {}), Error);
  EXPECT_THROW(conv(x, Tensor::zeros(Shape{3, 2, 5, 3}), {}), Error);
  EXPECT_THROW(conv(x, w, Tensor::zeros(Shape{2})), Error);
  EXPECT_THROW(conv(x, Tensor::zeros(Shape{3, 2, 3, 3}, DType::f64), {}), Error);
  EXPECT_THROW(conv(x, Tensor::zeros(Shape{3, 2, 3}), {}), Error);
  EXPECT_NO_THROW(conv(x, w, {}));
}

}  // namespace
}  // namespace tessera
