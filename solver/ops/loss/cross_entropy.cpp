#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/index_bounds.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

/// loss[r] = log(sum exp(x[r] - max)) + max - x[r, target[r]].
template <typename T>
void row_losses(T* loss, const T* x, const std::int64_t* target, Index rows, Index classes) {
  using C = Compute<T>;
  for_each(
      "cross_entropy", rows, KOKKOS_LAMBDA(Index r) {
        const T* row = x + r * classes;
        C top = load(row[0]), total = 0;
        for (Index c = 1; c < classes; ++c) top = load(row[c]) > top ? C(load(row[c])) : top;
        for (Index c = 0; c < classes; ++c) total += std::exp(load(row[c]) - top);
        store(loss[r], std::log(total) + top - load(row[target[r]]));
      });
}

/// gx[r, c] = g[r] (softmax(x[r])[c] - [c == target[r]]).
template <typename T>
void row_gradients(T* gx, const T* g, const T* x, const std::int64_t* target, Index rows, Index classes) {
  using C = Compute<T>;
  for_each(
      "cross_entropy_gradient", rows, KOKKOS_LAMBDA(Index r) {
        const T* row = x + r * classes;
        C top = load(row[0]), total = 0;
        for (Index c = 1; c < classes; ++c) top = load(row[c]) > top ? C(load(row[c])) : top;
        for (Index c = 0; c < classes; ++c) total += std::exp(load(row[c]) - top);
        for (Index c = 0; c < classes; ++c) {
          const C p = std::exp(load(row[c]) - top) / total;
          store(gx[r * classes + c], load(g[r]) * (p - (c == target[r] ? C(1) : C(0))));
        }
      });
}

/// Targets come from files: a class that does not exist is an input error.
void check_targets(const Tensor& target, Index classes) {
  const auto [least, most] = index_bounds(target);
  if (count(target.shape()) > 0 && (least < 0 || most >= classes)) {
    fail(ExitCode::input_file, "cross_entropy", "found class {}, expected 0 to {}", least < 0 ? least : most,
         classes - 1);
  }
}

const Operator& kCrossEntropy =
    register_operator({.name = "cross_entropy",
                       .signature = "cross_entropy(x, target)",
                       .family = "losses",
                       .cuts = {{"rows", Moves::reduction}, {"classes", Moves::gather}},
                       .rule = index_rule("n !c, n -> n")});

}  // namespace

Tensor cross_entropy(const Tensor& x_in, const Tensor& target_in) {
  require(x_in.ndim() == 2 && target_in.shape() == Shape{x_in.dim(0)} && target_in.dtype() == DType::i64,
          "cross_entropy", "found {} and {}, expected (N, classes) and i64 (N)", describe(x_in),
          describe(target_in));
  check_targets(target_in, x_in.dim(1));
  const OperatorCall call(kCrossEntropy, {x_in, target_in});
  const Tensor &x = call[0], &target = call[1];
  const Index rows = x.local_shape()[0], classes = x.dim(1);
  Tensor loss = call.empty_result(Shape{rows}, x.dtype());
  dispatch_floating(x.dtype(), "cross_entropy", [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    row_losses(loss.data<T>(), x.data<T>(), target.data<std::int64_t>(), rows, classes);
  });
  record("cross_entropy", {x}, loss, [x = x.detach(), target, rows, classes](const Tensor& g) {
    Tensor gx = Tensor::empty_like(x);
    dispatch_floating(x.dtype(), "cross_entropy", [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      row_gradients(gx.data<T>(), g.data<T>(), x.data<T>(), target.data<std::int64_t>(), rows, classes);
    });
    return Gradients{gx};
  });
  return reduce_partial(mean(loss));
}

}  // namespace tessera
