#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

const Operator& kCast = register_operator({.name = "cast",
                                           .signature = "cast(x, type)",
                                           .family = "elementwise",
                                           .cuts = {{"any"}},
                                           .rule = keep_rule()});

}  // namespace

Tensor cast(const Tensor& x_in, DType type) {
  check_floating("cast", x_in);
  if (!is_floating(type))
    fail(ExitCode::usage, "cast", "found element type {}, expected f32, f64 or bf16", name_of(type));
  if (x_in.dtype() == type) return x_in;
  const OperatorCall call(kCast, {x_in});
  const Tensor& x = call[0];
  Tensor y = x.detach().to(type);
  record(call.name(), {x}, y, [from = x.dtype()](const Tensor& gy) { return Gradients{gy.to(from)}; });
  return y;
}

}  // namespace tessera
