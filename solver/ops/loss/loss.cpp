#include "solver/ops/loss/loss.hpp"

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

void check_shapes(const char* name, const Tensor& x, const Tensor& target) {
  require(x.shape() == target.shape(), name, "prediction {} and target {} differ", to_string(x.shape()),
          to_string(target.shape()));
}

std::vector<int> range(int lo, int hi) {
  std::vector<int> dims;
  for (int d = lo; d < hi; ++d) dims.push_back(d);
  return dims;
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target) {
  check_shapes("mse_loss", x, target);
  return reduce_partial(mean(square(sub(x, target))));
}

Tensor l1_loss(const Tensor& x, const Tensor& target) {
  check_shapes("l1_loss", x, target);
  return reduce_partial(mean(abs(sub(x, target))));
}

Tensor relative_l2_loss(const Tensor& x, const Tensor& target) {
  check_shapes("relative_l2_loss", x, target);
  const std::vector<int> sample = range(1, x.ndim());
  return reduce_partial(mean(sqrt(div(sum(square(sub(x, target)), sample), sum(square(target), sample)))));
}

Tensor vrmse_loss(const Tensor& x, const Tensor& target) {
  check_shapes("vrmse_loss", x, target);
  const std::vector<int> grid = range(1, x.ndim() - 1);
  const Tensor error = mean(square(sub(x, target)), grid);
  return reduce_partial(mean(sqrt(div(error, add(var(target, grid), 1e-7)))));
}

}  // namespace tessera
