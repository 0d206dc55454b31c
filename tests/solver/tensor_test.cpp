// Storage, conversions, views and layouts of tensors.
#include "solver/tensor/tensor.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

TEST(Tensor, DefaultIsUndefined) {
  const Tensor t;
  EXPECT_FALSE(t.defined());
  EXPECT_FALSE(t);
  EXPECT_EQ(describe(t), "undefined");
}

TEST(Tensor, ShapesAndBytes) {
  const Tensor t = Tensor::empty(Shape{2, 3, 4}, DType::bf16);
  EXPECT_EQ(t.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(t.local_shape(), t.shape());
  EXPECT_EQ(t.dim(-1), 4);
  EXPECT_EQ(t.ndim(), 3);
  EXPECT_EQ(t.local_count(), 24);
  EXPECT_EQ(t.bytes(), 48u);
  EXPECT_FALSE(t.is_shard());
  EXPECT_EQ(describe(t), "bf16 (2, 3, 4)");
}

TEST(Tensor, ScalarsAndEmptyTensors) {
  EXPECT_DOUBLE_EQ(Tensor::full(Shape{}, 3.5, DType::f64).item(), 3.5);
  const Tensor none = Tensor::zeros(Shape{3, 0}, DType::f64);
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_TRUE(none.to_host<double>().empty());
  EXPECT_EQ(none.clone().shape(), (Shape{3, 0}));
  EXPECT_EQ(none.to(DType::f32).shape(), (Shape{3, 0}));
  EXPECT_THROW(none.item(), Error);
}

TEST(Tensor, RefusesShapesThatCannotBeCounted) {
  const Index large = Index{1} << 32;
  EXPECT_THROW(Tensor::empty(Shape{large, large}), Error);     // 2^64 elements
  EXPECT_THROW(Tensor::empty(Shape{large, large, 0}), Error);  // none, but their strides overflow
  EXPECT_THROW(Tensor::empty(Shape{large, large / 8}, DType::f64), Error);  // 2^64 bytes
  EXPECT_THROW(Tensor::empty(Shape{2, -1}), Error);
}

TEST(Tensor, ZerosAndFull) {
  EXPECT_EQ(Tensor::zeros(Shape{3}).to_host<double>(), Values(3, 0.0));
  for (DType type : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(Tensor::full(Shape{2}, 7, type).to_host<double>(), Values(2, 7.0)) << name_of(type);
  }
}

TEST(Tensor, RefusesOtherElementTypesAndCounts) {
  const Tensor t = Tensor::zeros(Shape{3});
  EXPECT_THROW(t.data<double>(), Error);
  EXPECT_THROW(t.copy_from_host(std::span<const float>()), Error);
  EXPECT_THROW(t.as_plain(Shape{4}), Error);
  EXPECT_THROW(t.slice_storage(2, Shape{2}), Error);
  EXPECT_THROW(t.copy_from(Tensor::zeros(Shape{4})), Error);
}

TEST(Tensor, CopiesConvert) {
  const std::vector<double> values{1.5, -2.25, 3};
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor t = Tensor::zeros(Shape{3}, type);
    t.copy_from(tensor_of(values, Shape{3}));
    EXPECT_EQ(t.to_host<double>(), values) << name_of(type);
  }
  EXPECT_THROW(Tensor::zeros(Shape{3}).copy_from(Tensor::zeros(Shape{4})), Error);
}

TEST(Tensor, Conversions) {
  const Values values{0, 1, -2, 3.5, 1e-3, 65504};
  const Tensor t = tensor_of(values, Shape{6});
  EXPECT_EQ(t.to(DType::f64).raw(), t.raw());
  const Tensor single = t.to(DType::f32);
  EXPECT_EQ(single.dtype(), DType::f32);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(single.to_host<float>()[i], static_cast<float>(values[i]));
    EXPECT_NEAR(t.to(DType::bf16).to_host<double>()[i], values[i], std::abs(values[i]) / 256);
  }
  EXPECT_EQ(t.to(DType::i64).to_host<std::int64_t>()[2], -2);
}

TEST(Tensor, Bfloat16RoundsToNearestEven) {
  // 1 + 1/256 lies between 1 and 1 + 1/128, and ties to even; a little more goes up.
  const Tensor t = tensor_of({1 + 1.0 / 256, 1 + 3.0 / 256, 1 + 1.0 / 256 + 1e-6, -1 - 1.0 / 256}, Shape{4});
  EXPECT_EQ(t.to(DType::f32).to(DType::bf16).to_host<double>(),
            (Values{1, 1 + 4.0 / 256, 1 + 2.0 / 256, -1}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Values special = tensor_of({nan, infinity, -infinity}, Shape{3}).to(DType::bf16).to_host<double>();
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], infinity);
  EXPECT_EQ(special[2], -infinity);
}

TEST(Tensor, ViewsShareStorageAndClonesDoNot) {
  const Tensor t = tensor_of({1, 2, 3, 4, 5, 6}, Shape{2, 3});
  const Tensor view = t.as_plain(Shape{6});
  const Tensor row = t.slice_storage(3, Shape{3});
  const Tensor copy = t.clone();
  t.copy_from(Tensor::full(Shape{2, 3}, 9, DType::f64));
  EXPECT_EQ(view.to_host<double>(), Values(6, 9.0));
  EXPECT_EQ(row.to_host<double>(), Values(3, 9.0));
  EXPECT_EQ(copy.to_host<double>(), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(view.same_as(t));
}

TEST(Tensor, ViewsKeepTheStorageAlive) {
  Tensor row;
  {
    const Tensor t = tensor_of({1, 2, 3, 4}, Shape{2, 2});
    row = t.slice_storage(2, Shape{2});
  }
  const Tensor other = Tensor::full(Shape{2, 2}, 7, DType::f64);
  EXPECT_EQ(row.to_host<double>(), (Values{3, 4}));
}

TEST(Tensor, WrapsMemoryOfAnOwner) {
  const Tensor owner = Tensor::full(Shape{4}, 2, DType::f64);
  const Tensor t = Tensor::wrap(owner.impl().owner, owner.raw(), Shape{2, 2}, DType::f64);
  EXPECT_EQ(t.raw(), owner.raw());
  EXPECT_EQ(t.to_host<double>(), Values(4, 2.0));
}

TEST(ShardTensor, StoresItsBox) {
  Random random(1);
  const Shape shape{5, 4, 3};
  Values values(60);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  for (const Mesh& mesh : meshes(3)) {
    for (Cuts cuts : {Cuts::even, Cuts::uneven, Cuts::empty}) {
      const Layout layout = random_layout(random, mesh, shape, {0, 1, 2}, cuts);
      const Tensor t = tensor_of(values, shape, DType::f64, layout);
      EXPECT_TRUE(t.is_shard());
      EXPECT_EQ(t.shape(), shape);
      EXPECT_EQ(t.local_shape(), layout.local_shape());
      EXPECT_EQ(t.local_count(), layout.local_box().volume());
      EXPECT_TRUE(t.clone().layout() == layout);
      EXPECT_TRUE(Tensor::zeros_like(t).layout() == layout);
      EXPECT_TRUE(t.to(DType::f32).layout() == layout);
      EXPECT_EQ(values_of(t), values);
      EXPECT_NE(describe(t).find("f64 (5, 4, 3) ["), std::string::npos) << describe(t);
    }
  }
}

TEST(ShardTensor, LayoutViews) {
  const Mesh mesh = meshes(1)[0];
  const Layout layout = Layout::even(mesh, {Shard(0)}, Shape{7, 2});
  const Tensor t = Tensor::zeros(layout, DType::f64);
  const Tensor local = t.as_plain();
  EXPECT_FALSE(local.is_shard());
  EXPECT_EQ(local.shape(), layout.local_shape());
  EXPECT_TRUE(local.with_layout(layout).layout() == layout);
  if (mesh.size() > 1) {
    EXPECT_THROW(local.with_layout(Layout::replicated(mesh, Shape{7, 2})), Error);
  }
  EXPECT_FALSE(t.with_layout({}).is_shard());
}

}  // namespace
}  // namespace tessera::testing
