#include "solver/ops/loss/loss.hpp"

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
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

const Operator& loss(const char* name) {
  return register_operator({.name = name,
                            .signature = std::string(name) + "(x, target)",
                            .family = "losses",
                            .cuts = {{"any", Moves::reduction}},
                            .rule = index_rule("..., ... -> ...")});
}
const Operator& kMse = loss("mse_loss");
const Operator& kL1 = loss("l1_loss");
const Operator& kRelativeL2 = loss("relative_l2_loss");
const Operator& kVrmse = loss("vrmse_loss");

}  // namespace

Tensor mse_loss(const Tensor& x_in, const Tensor& target_in) {
  check_shapes("mse_loss", x_in, target_in);
  const OperatorCall call(kMse, {x_in, target_in});
  const Tensor &x = call[0], &target = call[1];
  return reduce_partial(mean(square(sub(x, target))));
}

Tensor l1_loss(const Tensor& x_in, const Tensor& target_in) {
  check_shapes("l1_loss", x_in, target_in);
  const OperatorCall call(kL1, {x_in, target_in});
  const Tensor &x = call[0], &target = call[1];
  return reduce_partial(mean(abs(sub(x, target))));
}

Tensor relative_l2_loss(const Tensor& x_in, const Tensor& target_in) {
  check_shapes("relative_l2_loss", x_in, target_in);
  const OperatorCall call(kRelativeL2, {x_in, target_in});
  const Tensor &x = call[0], &target = call[1];
  const std::vector<int> sample = range(1, x.ndim());
  return reduce_partial(mean(sqrt(div(sum(square(sub(x, target)), sample), sum(square(target), sample)))));
}

Tensor vrmse_loss(const Tensor& x_in, const Tensor& target_in) {
  check_shapes("vrmse_loss", x_in, target_in);
  const OperatorCall call(kVrmse, {x_in, target_in});
  const Tensor &x = call[0], &target = call[1];
  const std::vector<int> grid = range(1, x.ndim() - 1);
  const Tensor error = mean(square(sub(x, target)), grid);
  return reduce_partial(mean(sqrt(div(error, add(var(target, grid), 1e-7)))));
}

}  // namespace tessera
