// Softmax, products, rearrangements, selections and comparisons: against their definitions, finite
// differences, and one process on every layout.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/matmul/matmul.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/softmax/softmax.hpp"
#include "tests/support/operator_case.hpp"

namespace tessera {
namespace {

using testing::all_dims;
using testing::OperatorCase;
using testing::pick;
using testing::Random;
using testing::tensor_of;
using testing::values_of;
using Values = std::vector<double>;
using Inputs = std::span<const Tensor>;

void add_all(OperatorCase& c, Random& random, const std::string& name, const Shape& shape) {
  c.add(random, name, shape, all_dims(shape));
}

void check(OperatorCase& c, Random& random, bool differentiable = true) {
  const testing::Outcome want = testing::run_case(c, DType::f64);
  if (differentiable) testing::expect_finite_differences(c, random, want);
  testing::expect_same_under_layouts(c, random, want, DType::f64, 1e-12);
  testing::expect_same_under_layouts(c, random, want, DType::f32, 2e-5);
}

Shape random_shape(Random& random, Index dims) {
  Shape shape;
  for (Index d = 0; d < dims; ++d) shape.push_back(pick(random, 1, 7));
  return shape;
}

/// Operators of one operand along one of its dimensions.
TEST(MoreOps, AlongADimension) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed + 7);
    const Shape shape = random_shape(random, pick(random, 1, 4));
    const auto dim = static_cast<int>(pick(random, 0, shape.size() - 1));
    const Index shift = pick(random, -9, 9);
    const std::uint64_t which = seed % 5;
    OperatorCase c;
    c.text = std::vector<std::string>{"softmax", "log_softmax", "cumsum", "roll", "flip"}[which] + " " +
             to_string(shape) + " along " + std::to_string(dim);
    add_all(c, random, "x", shape);
    c.op = [=](Inputs in) {
      switch (which) {
        case 0:
          return softmax(in[0], dim);
        case 1:
          return log_softmax(in[0], dim);
        case 2:
          return cumsum(in[0], dim - static_cast<int>(shape.size()));
        case 3:
          return roll(in[0], dim, shift);
        default:
          return flip(in[0], std::vector<int>{dim, 0});
      }
    };
    check(c, random);
  }
}

TEST(MoreOps, SoftmaxOfLargeNumbers) {
  const Mesh& mesh = testing::meshes(1).front();
  const Layout layout = Layout::even(mesh, {Shard(0)}, Shape{3});
  const Values got = values_of(softmax(tensor_of({1000, 1000, -INFINITY}, Shape{3}, DType::f64, layout), 0));
  testing::expect_close(got, {0.5, 0.5, 0}, 1e-15, 0, "softmax");
}

TEST(MoreOps, Matmul) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed + 11);
    const Index m = pick(random, 1, 7), k = pick(random, 1, 7), n = pick(random, 1, 7);
    Shape a, b;
    for (Index d = pick(random, 0, 2); d > 0; --d) {
      const Index extent = pick(random, 1, 4);
      const Index who = pick(random, 0, 3);
      a.push_back(who == 1 ? 1 : extent);
      if (who == 3)
        b = Shape();  // fewer batch dimensions on the right
      else
        b.push_back(who == 2 ? 1 : extent);
    }
    while (b.size() > a.size()) b.erase(0);
    // Batch dimensions line up at the end: those of b that do not fit are stretched.
    for (int d = 0; d < b.size(); ++d) {
      Index& own = b[b.size() - 1 - d];
      const Index other = a[a.size() - 1 - d];
      if (own != other && own != 1 && other != 1) own = 1;
    }
    if (seed % 9 != 7) a.push_back(m);
    if (seed % 9 == 7) a = Shape();
    a.push_back(k);
    b.push_back(k);
    if (seed % 9 == 8)
      b = Shape{k};
    else
      b.push_back(n);
    OperatorCase c;
    c.text = "matmul " + to_string(a) + " " + to_string(b);
    add_all(c, random, "a", a);
    add_all(c, random, "b", b);
    c.op = [](Inputs in) { return matmul(in[0], in[1]); };
    check(c, random);
  }
  EXPECT_THROW(matmul(Tensor::zeros(Shape{2, 3}), Tensor::zeros(Shape{2, 3})), Error);
}

TEST(MoreOps, MatmulEqualsTheDefinition) {
  Random random(3);
  const Values a = testing::random_values(random, 2 * 3 * 4), b = testing::random_values(random, 4 * 5);
  Values want(2 * 3 * 5, 0.0);
  for (std::size_t r = 0; r < 6; ++r) {
    for (std::size_t c = 0; c < 5; ++c) {
      for (std::size_t k = 0; k < 4; ++k) want[r * 5 + c] += a[r * 4 + k] * b[k * 5 + c];
    }
  }
  const Tensor y = matmul(tensor_of(a, {2, 3, 4}), tensor_of(b, {4, 5}));
  testing::expect_close(values_of(y), want, 1e-14, 0, "matmul");
}

TEST(MoreOps, Cat) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Random random(seed + 23);
    const Shape shape = random_shape(random, pick(random, 1, 3));
    const auto dim = static_cast<int>(pick(random, 0, shape.size() - 1));
    OperatorCase c;
    c.text = "cat along " + std::to_string(dim);
    for (Index i = pick(random, 1, 3); i > 0; --i) {
      Shape own = shape;
      own[dim] = pick(random, 1, 6);
      c.text += " " + to_string(own);
      add_all(c, random, "x" + std::to_string(i), own);
    }
    c.op = [=](Inputs in) { return cat(in, dim); };
    check(c, random);
  }
}

TEST(MoreOps, CatKeepsACutDimensionCut) {
  const Mesh& mesh = testing::meshes(1).front();
  const Tensor x = Tensor::zeros(Layout::even(mesh, {Shard(0)}, Shape{2 * mesh.size(), 3}));
  const Tensor y = cat(std::vector<Tensor>{x, x}, 0);
  EXPECT_EQ(y.local_shape(), (Shape{4, 3}));
}

/// Row-major positions that a selection along `dim` reads: outer, index, inner.
Values selected(const Values& x, const Shape& shape, int dim, const Values& index) {
  Index inner = 1;
  for (int d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const Index n = shape[dim], outer = count(shape) / (n * inner);
  Values y;
  for (Index o = 0; o < outer; ++o) {
    for (double k : index) {
      for (Index i = 0; i < inner; ++i) {
        y.push_back(x[static_cast<std::size_t>((o * n + static_cast<Index>(k)) * inner + i)]);
      }
    }
  }
  return y;
}

TEST(MoreOps, IndexSelect) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed + 31);
    const Shape shape = random_shape(random, pick(random, 1, 3));
    const auto dim = static_cast<int>(pick(random, 0, shape.size() - 1));
    Values index;
    for (Index i = pick(random, 1, 9); i > 0; --i) {
      index.push_back(static_cast<double>(pick(random, 0, shape[dim] - 1)));
    }
    OperatorCase c;
    c.text = "index_select " + to_string(shape) + " along " + std::to_string(dim);
    add_all(c, random, "x", shape);
    c.operands.push_back({"index", Shape{static_cast<Index>(index.size())}, index, {}, false, DType::i64});
    c.op = [=](Inputs in) { return index_select(in[0], dim, in[1]); };
    const Values want = selected(c.operands[0].values, shape, dim, index);
    testing::expect_close(testing::run_case(c, DType::f64).outputs[0], want, 0, 0, c.text);
    check(c, random);
  }
  const Tensor outside = tensor_of({5}, Shape{1}, DType::i64);
  EXPECT_THROW(index_select(Tensor::zeros(Shape{5}), 0, outside), Error);
}

TEST(MoreOps, Gather) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Random random(seed + 37);
    const Shape shape = random_shape(random, pick(random, 1, 3));
    const auto dim = static_cast<int>(pick(random, 0, shape.size() - 1));
    Shape own = shape;
    for (int d = 0; d < own.size(); ++d) {
      if (pick(random, 0, 2) == 0) own[d] = pick(random, 1, own[d]);
    }
    own[dim] = pick(random, 1, 8);
    Values index, want;
    for (Index i = 0; i < count(own); ++i)
      index.push_back(static_cast<double>(pick(random, 0, shape[dim] - 1)));
    OperatorCase c;
    c.text = "gather " + to_string(shape) + " by " + to_string(own) + " along " + std::to_string(dim);
    add_all(c, random, "x", shape);
    c.operands.push_back({"index", own, index, all_dims(own), false, DType::i64});
    c.op = [=](Inputs in) { return gather(in[0], dim, in[1]); };
    for (Index i = 0; i < count(own); ++i) {
      Index rest = i, at = 0, scale = 1;
      for (int d = own.size() - 1; d >= 0; --d) {
        at += (d == dim ? static_cast<Index>(index[static_cast<std::size_t>(i)]) : rest % own[d]) * scale;
        rest /= own[d];
        scale *= shape[d];
      }
      want.push_back(c.operands[0].values[static_cast<std::size_t>(at)]);
    }
    testing::expect_close(testing::run_case(c, DType::f64).outputs[0], want, 0, 0, c.text);
    check(c, random);
  }
}

TEST(MoreOps, Unbind) {
  Random random(5);
  OperatorCase c;
  c.text = "unbind";
  add_all(c, random, "x", {4, 3, 2});
  c.op = [](Inputs in) {
    const std::vector<Tensor> parts = unbind(in[0], 1);
    return add(mul(parts[0], parts[2]), parts[1]);
  };
  check(c, random);
}

TEST(MoreOps, WhereAndExtremes) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed + 41);
    const Shape shape = random_shape(random, 3), row{shape[2]}, column{shape[1], 1};
    OperatorCase c;
    c.text = "where " + to_string(shape);
    add_all(c, random, "a", shape);
    add_all(c, random, "b", seed % 2 ? row : shape);
    Values condition;
    for (Index i = 0; i < count(column); ++i) condition.push_back(static_cast<double>(pick(random, 0, 1)));
    c.operands.push_back({"condition", column, condition, {0}, false, DType::u8});
    c.op = [](Inputs in) { return where(in[2], maximum(in[0], in[1]), minimum(in[1], mul(in[0], 2.0))); };
    check(c, random);
  }
}

TEST(MoreOps, Comparisons) {
  const Tensor a = tensor_of({1, 2, 3, NAN}, Shape{4}), b = tensor_of({2, 2, 2, 2}, Shape{4});
  const auto expect = [&](Tensor (*op)(const Tensor&, const Tensor&), const Values& want, const char* what) {
    EXPECT_EQ(op(a, b).dtype(), DType::u8) << what;
    testing::expect_close(values_of(op(a, b)), want, 0, 0, what);
  };
  expect(eq, {0, 1, 0, 0}, "eq");
  expect(ne, {1, 0, 1, 1}, "ne");
  expect(lt, {1, 0, 0, 0}, "lt");
  expect(le, {1, 1, 0, 0}, "le");
  expect(gt, {0, 0, 1, 0}, "gt");
  expect(ge, {0, 1, 1, 0}, "ge");
  EXPECT_TRUE(std::isnan(values_of(maximum(a, b))[3]) && std::isnan(values_of(minimum(b, a))[3]));
  const Layout cut = Layout::even(testing::meshes(1).front(), {Shard(0)}, Shape{4});
  testing::expect_close(values_of(lt(tensor_of({1, 2, 3, 4}, Shape{4}, DType::f64, cut), b)), {1, 0, 0, 0}, 0,
                        0, "lt of a shard tensor");
}

}  // namespace
}  // namespace tessera
