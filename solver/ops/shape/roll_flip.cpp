#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/ops/shape/shape.hpp"

namespace tessera {
namespace {

const Operator& kRoll = register_operator({.name = "roll",
                                           .signature = "roll(x, dim, shift)",
                                           .family = "shape",
                                           .cuts = {{"dim", Moves::exchange}, {"other"}},
                                           .rule = keep_rule()});
const Operator& kFlip = register_operator({.name = "flip",
                                           .signature = "flip(x, dims)",
                                           .family = "shape",
                                           .cuts = {{"dims", Moves::exchange}, {"other"}},
                                           .rule = keep_rule()});

}  // namespace

Tensor roll(const Tensor& x_in, int dim_in, Index shift) {
  const OperatorCall call(kRoll, {x_in});
  const Tensor& x = call[0];
  const int dim = checked_dim(x, dim_in, "roll");
  const Index n = x.dim(dim);
  if (n == 0 || shift % n == 0) return x;
  std::vector<AxisSource> from(static_cast<std::size_t>(x.ndim()));
  from[static_cast<std::size_t>(dim)] = [n, by = shift % n](Range range) {
    return map_with_boundary({range.lo - by, range.hi - by}, n, Boundary::periodic);
  };
  return rearrange("roll", x, x.layout(), x.shape(), from);
}

Tensor flip(const Tensor& x_in, std::span<const int> dims) {
  const OperatorCall call(kFlip, {x_in});
  const Tensor& x = call[0];
  std::vector<AxisSource> from(static_cast<std::size_t>(x.ndim()));
  for (int d : dims) {
    const int dim = checked_dim(x, d, "flip");
    from[static_cast<std::size_t>(dim)] = [n = x.dim(dim)](Range range) {
      return map_affine(range, n - 1, -1);
    };
  }
  return rearrange("flip", x, x.layout(), x.shape(), from);
}

}  // namespace tessera
