// From plain tensors to shard tensors and back: promote, from_local, to_local, and their gradients.
#include <algorithm>

#include <gtest/gtest.h>

#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/support/sharded.hpp"
#include "tests/support/test_main.hpp"

namespace tessera::testing {
namespace {

using Values = std::vector<double>;

TEST(Promote, GradientIsTheSumOverTheMesh) {
  const Mesh mesh = meshes(1)[0];
  const Tensor w = Tensor::full(Shape{3}, 2.0, DType::f64);
  w.set_requires_grad();
  const Tensor seen = redistribute(promote(w, mesh), Layout::even(mesh, {Shard(0)}, Shape{3}));
  seen.backward(tensor_of({1, 2, 3}, Shape{3}, DType::f64, seen.layout()));
  EXPECT_FALSE(w.grad().is_shard());
  EXPECT_EQ(w.grad().to_host<double>(), (Values{1, 2, 3}));
}

TEST(Local, FromLocalAndToLocalKeepGradientsLocal) {
  const Mesh mesh = meshes(1)[0];
  const double rank = mesh.rank();
  const Layout layout(mesh, {Partial(ReduceOp::avg)}, Shape{2}, {});
  const Tensor local = Tensor::full(Shape{2}, rank, DType::f64);
  local.set_requires_grad();
  const Tensor back = to_local(from_local(local, layout));
  EXPECT_FALSE(back.is_shard());
  back.backward(Tensor::full(Shape{2}, rank + 1, DType::f64));
  EXPECT_EQ(local.grad().to_host<double>(), (Values{rank + 1, rank + 1}));
}

TEST(Local, AverageOfLocals) {
  const Mesh mesh = meshes(1)[0];
  const Layout layout(mesh, {Partial(ReduceOp::avg)}, Shape{2}, {});
  const Tensor local = Tensor::full(Shape{2}, mesh.rank(), DType::f64);
  local.set_requires_grad();
  const Tensor whole = full_tensor(from_local(local, layout));
  EXPECT_DOUBLE_EQ(whole.to_host<double>()[0], (mesh.size() - 1) / 2.0);
  whole.backward(Tensor::full(Shape{2}, 1.0, DType::f64));
  EXPECT_DOUBLE_EQ(local.grad().to_host<double>()[1], 1.0 / mesh.size());
}

TEST(Local, EqualExtremesShareTheGradient) {
  const Mesh mesh = meshes(2).back();
  const Layout layout(mesh, Placements::filled(mesh.axes(), Partial(ReduceOp::max)), Shape{2}, {});
  // Element 0 is the same everywhere; element 1 is largest on the first and the last rank.
  const bool holds = mesh.rank() == 0 || mesh.rank() == mesh.size() - 1;
  const Tensor local = Tensor::from_host<double>(std::vector<double>{1, holds ? 5.0 : 0.0}, Shape{2});
  local.set_requires_grad();
  full_tensor(from_local(local, layout)).backward(Tensor::full(Shape{2}, 1.0, DType::f64));
  const Values got = local.grad().to_host<double>();
  EXPECT_DOUBLE_EQ(got[0], 1.0 / mesh.size());
  EXPECT_DOUBLE_EQ(got[1], holds ? 1.0 / std::min(mesh.size(), 2) : 0.0);
}

}  // namespace
}  // namespace tessera::testing
