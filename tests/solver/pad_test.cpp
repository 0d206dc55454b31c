// Padding and cropping: against loops written from the definition, on every layout.
#include <gtest/gtest.h>

#include "solver/ops/pad/pad.hpp"
#include "solver/tensor/autograd.hpp"
#include "tests/support/sharded.hpp"

namespace tessera {
namespace {

using testing::all_dims;
using testing::Cuts;
using testing::pick;
using testing::Random;
using testing::tensor_of;
using testing::values_of;
using Values = std::vector<double>;

struct Case {
  Shape shape, lo, hi, output;
  PadMode mode = PadMode::constant;
  double value = 0;
  Values x, cotangent;
  std::string text() const {
    return "pad " + to_string(shape) + " by " + to_string(lo) + " " + to_string(hi) + " mode " +
           std::to_string(static_cast<int>(mode));
  }
};

Case random_case(std::uint64_t seed) {
  Random random(seed * 104729 + 5);
  Case c;
  c.mode = static_cast<PadMode>(seed % 4);
  c.value = c.mode == PadMode::constant && seed % 8 == 0 ? 2.5 : 0;
  const Index dims = pick(random, 1, 5);
  for (Index d = 0; d < dims; ++d) {
    const Index n = pick(random, 1, 6);
    const Index most = c.mode == PadMode::reflect ? n - 1 : n + 1;
    const bool keep = pick(random, 0, 2) == 0;
    c.shape.push_back(n);
    c.lo.push_back(keep ? 0 : pick(random, -1, most));
    c.hi.push_back(keep ? 0 : pick(random, std::max<Index>(-1, -n - c.lo.back()), most));
    c.output.push_back(n + c.lo.back() + c.hi.back());
  }
  c.x = testing::random_values(random, count(c.shape));
  c.cotangent = testing::random_values(random, count(c.output));
  return c;
}

/// Row-major number of the element that output element `o` reads, or -1 for the constant.
Index source_of(const Case& c, Index o) {
  Index at = 0, scale = 1;
  for (int d = c.shape.size() - 1; d >= 0; --d) {
    const Index n = c.shape[d];
    Index i = o % c.output[d] - c.lo[d];
    o /= c.output[d];
    switch (c.mode) {
      case PadMode::periodic:
        i = ((i % n) + n) % n;
        break;
      case PadMode::replicate:
        i = std::clamp<Index>(i, 0, n - 1);
        break;
      case PadMode::reflect:
        i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
        break;
      default:
        if (i < 0 || i >= n) return -1;
    }
    at += i * scale;
    scale *= n;
  }
  return at;
}

void check(const Case& c, const Layout& layout) {
  Values want(c.cotangent.size()), want_gradient(c.x.size());
  for (std::size_t o = 0; o < want.size(); ++o) {
    const Index from = source_of(c, static_cast<Index>(o));
    want[o] = from < 0 ? c.value : c.x[static_cast<std::size_t>(from)];
    if (from >= 0) want_gradient[static_cast<std::size_t>(from)] += c.cotangent[o];
  }
  const std::string what = c.text() + (layout ? " on " + to_string(layout) : "");
  const Tensor x = tensor_of(c.x, c.shape, DType::f64, layout).set_requires_grad();
  const Tensor y = pad(x, c.lo, c.hi, c.mode, c.value);
  ASSERT_EQ(y.shape(), c.output) << what;
  y.backward(tensor_of(c.cotangent, c.output, DType::f64, y.layout()));
  EXPECT_TRUE(x.grad().layout() == x.layout()) << what;
  testing::expect_close(values_of(y), want, 0, 0, what + ", output");
  testing::expect_close(values_of(x.grad()), want_gradient, 1e-14, 1e-14, what + ", gradient");
}

TEST(Pad, EveryLayoutEqualsTheDefinition) {
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Case c = random_case(seed);
    Random random(seed);
    check(c, {});
    for (const Mesh& mesh : testing::meshes()) {
      for (Cuts cuts : {Cuts::even, Cuts::uneven, Cuts::empty}) {
        check(c, testing::random_layout(random, mesh, c.shape, all_dims(c.shape), cuts));
      }
    }
  }
}

TEST(Pad, RanksKeepWhatTheyOwn) {
  const Mesh& mesh = testing::meshes().front();
  const int ranks = mesh.size();
  const Layout layout = Layout::even(mesh, {Shard(0)}, Shape{3 * ranks});
  const Tensor y = pad(Tensor::zeros(layout), {2}, {1});
  for (int r = 0; r < ranks; ++r) {
    const Range own = y.layout().range(r, 0);
    EXPECT_EQ(own.lo, r == 0 ? 0 : 3 * r + 2);
    EXPECT_EQ(own.hi, r == ranks - 1 ? 3 * ranks + 3 : 3 * r + 5);
  }
}

TEST(Pad, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros(Shape{3, 4});
  EXPECT_THROW(pad(x, {0}, {0}), Error);
  EXPECT_THROW(pad(x, {-2, 0}, {-2, 0}), Error);
  EXPECT_THROW(pad(x, {3, 0}, {0, 0}, PadMode::reflect), Error);
  EXPECT_THROW(pad(Tensor::zeros(Shape{0}), {1}, {0}, PadMode::replicate), Error);
}

TEST(Crop, EveryLayoutAndTargetEqualsTheDefinition) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Random random(seed + 1000);
    Case c;
    Box box;
    for (Index d = pick(random, 1, 4); d > 0; --d) {
      const Index n = pick(random, 1, 7), lo = pick(random, 0, n), hi = pick(random, lo, n);
      c.shape.push_back(n);
      c.lo.push_back(-lo);
      c.hi.push_back(hi - n);
      box.push_back({lo, hi});
    }
    c.output = box.shape();
    c.x = testing::random_values(random, count(c.shape));
    c.cotangent = testing::random_values(random, count(c.output));
    for (const Mesh& mesh : testing::meshes()) {
      for (Cuts cuts : {Cuts::even, Cuts::uneven, Cuts::empty}) {
        const Layout layout = testing::random_layout(random, mesh, c.shape, all_dims(c.shape), cuts);
        check(c, layout);
        const Layout target = testing::random_layout(random, mesh, c.output, all_dims(c.output), cuts);
        const Tensor x = tensor_of(c.x, c.shape, DType::f64, layout).set_requires_grad();
        const Tensor y = crop(x, box, seed % 3 == 0 ? Layout() : target);
        y.backward(tensor_of(c.cotangent, c.output, DType::f64, y.layout()));
        Values want(c.cotangent.size()), want_gradient(c.x.size());
        for (std::size_t o = 0; o < want.size(); ++o) {
          const auto from = static_cast<std::size_t>(source_of(c, static_cast<Index>(o)));
          want[o] = c.x[from];
          want_gradient[from] += c.cotangent[o];
        }
        const std::string what =
            "crop " + to_string(box) + " of " + to_string(layout) + " to " + to_string(y.layout());
        testing::expect_close(values_of(y), want, 0, 0, what);
        testing::expect_close(values_of(x.grad()), want_gradient, 0, 0, what + ", gradient");
        EXPECT_TRUE(x.grad().layout() == x.layout()) << what;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
