// gemm, conv, attention: single operators on shard tensors.
#include <array>
#include <cmath>

#include "app/bench/kinds.hpp"
#include "solver/ops/attention/attention.hpp"
#include "solver/ops/conv/conv.hpp"
#include "solver/ops/linear/linear.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/random.hpp"

namespace tessera::bench {
namespace {

constexpr Index kConvChannels = 64, kConv3dChannels = 32;
constexpr Index kHeads = 8, kHeadSize = 64;

template <typename Where>
Tensor random_tensor(const Where& where, DType type, const char* name) {
  const Tensor t = Tensor::empty(where, type);
  fill_normal(t, CounterRandom(0, stream_of(name)), 0.0, 1.0);
  return t;
}

double cubed(Index n) {
  return std::pow(static_cast<double>(n), 3);
}

Work make_conv_of(const Place& place, const Case& c, int axes, Index channels) {
  Shape shape{1}, kernel{channels, channels};
  for (int a = 0; a < axes; ++a) {
    shape.push_back(c.size);
    kernel.push_back(3);
  }
  shape.push_back(channels);
  const Layout layout = cut_over(place.group, shape, 1, c.uneven);
  const Tensor x = random_tensor(layout, c.precision, "x"), gy = random_tensor(layout, c.precision, "gy");
  const Tensor w = random_tensor(kernel, c.precision, "w");
  x.set_requires_grad();
  w.set_requires_grad();
  w.defer_domain_sum(layout.mesh());  // as in training, where the gradients' reduction sums over the ranks
  const Shape& own = layout.local_shape();
  const ConvShape local{Shape(own.begin() + 1, own.end() - 1), channels, c.precision};
  Work work;
  work.run = [=] {
    const Tensor y = conv(x, w, {}, {.padding_lo = {1}, .padding_hi = {1}});
    gradients(y, std::array{x, w}, gy);
  };
  work.amount = 3 * 2 * static_cast<double>(count(kernel)) * std::pow(static_cast<double>(c.size), axes);
  work.limit_name = "library's convolution";
  work.limit = [local, &limits = place.limits] { return limits.conv(local); };
  return work;
}

}  // namespace

Work make_gemm(const Place& place, const Case& c) {
  const Layout layout = cut_over(place.group, {1, c.size, c.size}, 1, c.uneven);
  const Tensor x = random_tensor(layout, c.precision, "x");
  const Tensor w = random_tensor(Shape{c.size, c.size}, c.precision, "w");
  Work work;
  work.run = [=] {
    const NoGrad no_grad;
    linear(x, w);
  };
  work.amount = 2 * cubed(c.size);
  work.limit_name = "library's GEMM";
  work.limit = [type = c.precision, &limits = place.limits] { return limits.gemm(type); };
  return work;
}

Work make_conv(const Place& place, const Case& c) {
  return make_conv_of(place, c, 2, kConvChannels);
}

Work make_conv_3d(const Place& place, const Case& c) {
  return make_conv_of(place, c, 3, kConv3dChannels);
}

Work make_attention(const Place& place, const Case& c) {
  const Layout layout = cut_over(place.group, {1, c.size, kHeads, kHeadSize}, 1, c.uneven);
  std::array<Tensor, 3> qkv;
  const char* names[] = {"q", "k", "v"};
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    qkv[i] = random_tensor(layout, c.precision, names[i]);
    qkv[i].set_requires_grad();
  }
  const Tensor gy = random_tensor(layout, c.precision, "gy");
  Work work;
  work.run = [=] { gradients(attention(qkv[0], qkv[1], qkv[2]), qkv, gy); };
  // Two products of (tokens, head size, tokens) forward, five backward, the scores once more among them.
  const double n = static_cast<double>(c.size);
  work.amount = 7 * 2 * n * n * static_cast<double>(kHeads * kHeadSize);
  work.limit_name = "library's GEMM";
  work.limit = [type = c.precision, &limits = place.limits] { return limits.gemm(type); };
  return work;
}

}  // namespace tessera::bench
