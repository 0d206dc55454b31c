#include "solver/ops/shape/rearrange.hpp"

#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

NeedMap need_of_box(const Box& box, std::span<const AxisSource> from) {
  NeedMap need;
  for (int d = 0; d < box.size(); ++d) {
    const AxisSource& source = from[static_cast<std::size_t>(d)];
    need.push_back(box.is_empty() ? AxisMap{box[d], {}} : source ? source(box[d]) : map_identity(box[d]));
  }
  return need;
}

}  // namespace

int checked_dim(const Tensor& x, int dim, const char* op) {
  const int own = dim < 0 ? dim + x.ndim() : dim;
  if (own < 0 || own >= x.ndim()) {
    fail(ExitCode::usage, op, "dimension {} outside {}", dim, to_string(x.shape()));
  }
  return own;
}

Tensor rearrange(const char* op, const Tensor& x, const Layout& layout, const Shape& shape,
                 std::span<const AxisSource> from) {
  const ExchangePlan plan =
      layout ? ExchangePlan(x.layout(), [&](int rank) { return need_of_box(layout.box(rank), from); })
             : ExchangePlan(x.shape(), need_of_box(Box::whole(shape), from));
  Tensor y = Tensor::empty(layout, shape, x.dtype());
  plan.forward(x.raw(), y.raw(), x.dtype());
  record(op, {x}, y, [op, plan, source = x.layout(), whole = x.shape()](const Tensor& gy) {
    const Tensor gx = Tensor::zeros(source, whole, gy.dtype());
    plan.adjoint(gy.raw(), gx.raw(), gy.dtype());
    return Gradients{gx};
  });
  return y;
}

}  // namespace tessera
