#include "tests/solver/operator_samples.hpp"

#include "solver/ops/attention/attention.hpp"
#include "solver/ops/conv/conv.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/interpolate/interpolate.hpp"
#include "solver/ops/linear/linear.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/ops/matmul/matmul.hpp"
#include "solver/ops/neighborhood_attention/neighborhood_attention.hpp"
#include "solver/ops/norm/norm.hpp"
#include "solver/ops/pad/pad.hpp"
#include "solver/ops/pool/pool.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/ops/softmax/softmax.hpp"

namespace tessera::testing {
namespace {

using Operands = std::vector<Tensor>;

void add_elementwise(std::vector<OperatorSample>& all) {
  using Unary = Tensor (*)(const Tensor&);
  const std::pair<const char*, Unary> unary[] = {
      {"relu", relu}, {"elu", elu},         {"gelu", gelu},         {"gelu_tanh", gelu_tanh},
      {"silu", silu}, {"sigmoid", sigmoid}, {"softplus", softplus}, {"tanh", tanh},
      {"exp", exp},   {"log", log},         {"sqrt", sqrt},         {"square", square},
      {"abs", abs},   {"neg", neg}};
  for (const auto& [name, op] : unary) {
    all.push_back({name, {{8, 8}}, {{"any", {1}}}, [op = op](const Operands& t) { return op(t[0]); }});
  }
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> with_numbers = {
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.1); }},
      {"add_scalar", [](const Tensor& x) { return add(x, 1.0); }},
      {"mul_scalar", [](const Tensor& x) { return mul(x, 2.0); }},
      {"cast", [](const Tensor& x) { return cast(x, DType::f64); }},
      {"clamp", [](const Tensor& x) { return clamp(x, 0, 1); }}};
  for (const auto& [name, op] : with_numbers) {
    all.push_back({name, {{8, 8}}, {{"any", {0}}}, [op = op](const Operands& t) { return op(t[0]); }});
  }
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Binary> binary[] = {
      {"add", add}, {"sub", sub}, {"mul", mul}, {"div", div}, {"maximum", maximum}, {"minimum", minimum},
      {"eq", eq},   {"ne", ne},   {"lt", lt},   {"le", le},   {"gt", gt},           {"ge", ge}};
  for (const auto& [name, op] : binary) {
    all.push_back(
        {name, {{8, 8}, {8}}, {{"any", {0}}}, [op = op](const Operands& t) { return op(t[0], t[1]); }});
  }
  all.push_back({"where", {{8, 8}, {8, 8}}, {{"any", {1, 1}}}, [](const Operands& t) {
                   return where(lt(t[0], t[1]), t[0], t[1]);
                 }});
}

void add_reductions(std::vector<OperatorSample>& all) {
  using Reduction = Tensor (*)(const Tensor&, std::span<const int>, bool);
  const std::pair<const char*, Reduction> reductions[] = {
      {"sum", sum}, {"mean", mean}, {"amax", amax}, {"amin", amin}};
  static const std::vector<int> last{1};
  for (const auto& [name, op] : reductions) {
    all.push_back({name, {{8, 8}}, {{"reduced", {1}}, {"other", {0}}}, [op = op](const Operands& t) {
                     return op(t[0], last, false);
                   }});
  }
  all.push_back({"var", {{8, 8}}, {{"reduced", {1}}, {"other", {0}}}, [](const Operands& t) {
                   return var(t[0], last);
                 }});
  using Along = Tensor (*)(const Tensor&, int);
  const std::pair<const char*, Along> along[] = {
      {"softmax", softmax}, {"log_softmax", log_softmax}, {"cumsum", cumsum}};
  for (const auto& [name, op] : along) {
    all.push_back({name, {{8, 8}}, {{"dim", {1}}, {"other", {0}}}, [op = op](const Operands& t) {
                     return op(t[0], 1);
                   }});
  }
}

void add_shapes(std::vector<OperatorSample>& all) {
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> along = {
      {"roll", [](const Tensor& x) { return roll(x, 1, 3); }},
      {"select", [](const Tensor& x) { return select(x, 1, 2); }},
      {"unbind", [](const Tensor& x) { return unbind(x, 1).back(); }},
      {"index_select", [](const Tensor& x) {
         const Tensor index = Tensor::empty(Shape{3}, DType::i64);
         index.copy_from_host<std::int64_t>(std::vector<std::int64_t>{7, 0, 5});
         return index_select(x, 1, index);
       }}};
  for (const auto& [name, op] : along) {
    all.push_back(
        {name, {{8, 8}}, {{"dim", {1}}, {"other", {0}}}, [op = op](const Operands& t) { return op(t[0]); }});
  }
  // The second operand says how the index lies.
  all.push_back(
      {"gather", {{8, 8}, {8, 3}}, {{"dim", {1}}, {"other", {0}}, {"index", {-1, 1}}}, [](const Operands& t) {
         const Tensor index = t[1].is_shard() ? Tensor::zeros(t[1].layout(), DType::i64)
                                              : Tensor::zeros(t[1].shape(), DType::i64);
         return gather(t[0], 1, index);
       }});
  static const std::vector<int> last{1}, swapped{1, 0};
  static const std::vector<Index> halves{4, 4};
  all.push_back({"flip", {{8, 8}}, {{"dims", {1}}, {"other", {0}}}, [](const Operands& t) {
                   return flip(t[0], last);
                 }});
  all.push_back(
      {"permute", {{8, 8}}, {{"any", {1}}}, [](const Operands& t) { return permute(t[0], swapped); }});
  all.push_back(
      {"slice", {{8, 8}}, {{"any", {1}}}, [](const Operands& t) { return slice(t[0], 1, 1, 8, 2); }});
  all.push_back(
      {"split", {{8, 8}}, {{"any", {1}}}, [](const Operands& t) { return split(t[0], 1, halves)[0]; }});
  all.push_back({"cat", {{8, 8}, {8, 8}}, {{"dim", {1, 1}}, {"other", {0, 0}}}, [](const Operands& t) {
                   return cat(t, 1);
                 }});
  all.push_back({"reshape",
                 {{8, 8}},
                 {{"leading of its group", {0}}, {"merged behind another", {1}}},
                 [](const Operands& t) { return reshape(t[0], {64}); }});
  all.push_back(
      {"unsqueeze", {{8, 8}}, {{"any", {1}}}, [](const Operands& t) { return unsqueeze(t[0], 1); }});
  all.push_back({"squeeze", {{8, 1}}, {{"dim", {1}}, {"other", {0}}}, [](const Operands& t) {
                   return squeeze(t[0], 1);
                 }});
}

void add_windows(std::vector<OperatorSample>& all) {
  const std::map<std::string, std::vector<int>> field{{"batch", {0}}, {"grid", {1}}, {"channels", {3}}};
  all.push_back({"conv", {{4, 8, 8, 4}, {4, 4, 3, 3}}, field, [](const Operands& t) {
                   return conv(t[0], t[1], {}, {.padding_lo = {1}, .padding_hi = {1}});
                 }});
  all.push_back({"conv_transpose", {{4, 8, 8, 4}, {4, 4, 3, 3}}, field, [](const Operands& t) {
                   return conv_transpose(t[0], t[1], {}, {.padding = {1}});
                 }});
  all.push_back({"avg_pool", {{4, 8, 8, 4}}, field, [](const Operands& t) {
                   return avg_pool(t[0], {.kernel = {3}, .stride = {1}, .padding = {1}});
                 }});
  all.push_back({"max_pool", {{4, 8, 8, 4}}, field, [](const Operands& t) {
                   return max_pool(t[0], {.kernel = {3}, .stride = {1}, .padding = {1}}).values;
                 }});
  all.push_back({"interpolate", {{4, 8, 8, 4}}, field, [](const Operands& t) {
                   return interpolate(t[0], {13, 11}, InterpolateMode::linear);
                 }});
  all.push_back({"pad", {{8, 8}}, {{"padded", {1}}, {"other", {0}}}, [](const Operands& t) {
                   return pad(t[0], {0, 2}, {0, 2}, PadMode::periodic);
                 }});
  all.push_back({"crop", {{8, 8}}, {{"any", {1}}}, [](const Operands& t) {
                   return crop(t[0], Box{{0, 8}, {1, 7}});
                 }});
}

void add_products_norms_losses(std::vector<OperatorSample>& all) {
  all.push_back({"matmul",
                 {{4, 8, 8}, {4, 8, 8}},
                 {{"batch", {0, 0}}, {"rows of a", {1}}, {"columns of b", {-1, 2}}, {"contracted", {2, 1}}},
                 [](const Operands& t) { return matmul(t[0], t[1]); }});
  all.push_back({"linear", {{8, 8}, {4, 8}}, {{"leading", {0}}, {"features", {1}}}, [](const Operands& t) {
                   return linear(t[0], t[1]);
                 }});
  all.push_back({"layer_norm", {{8, 8}}, {{"leading", {0}}, {"normalized", {1}}}, [](const Operands& t) {
                   return layer_norm(t[0], {8}, {}, {});
                 }});
  const std::map<std::string, std::vector<int>> field{{"batch", {0}}, {"grid", {1}}, {"channels", {2}}};
  all.push_back(
      {"group_norm", {{4, 8, 8}}, field, [](const Operands& t) { return group_norm(t[0], 2, {}, {}); }});
  all.push_back({"group_norm_gelu", {{4, 8, 8}}, field, [](const Operands& t) {
                   return group_norm_gelu(t[0], 2, {}, {}, t[0]);
                 }});
  all.push_back(
      {"instance_norm", {{4, 8, 8}}, field, [](const Operands& t) { return instance_norm(t[0], {}, {}); }});
  all.push_back({"batch_norm", {{4, 8, 8}}, field, [](const Operands& t) {
                   return batch_norm(t[0], Tensor::zeros({8}), Tensor::full({8}, 1), {}, {});
                 }});
  all.push_back(
      {"attention",
       {{4, 8, 2, 4}, {4, 8, 2, 4}, {4, 8, 2, 4}},
       {{"batch", {0, 0, 0}}, {"tokens", {1, 1, 1}}, {"heads", {2, 2, 2}}, {"head size", {3, 3, 3}}},
       [](const Operands& t) { return attention(t[0], t[1], t[2], {.method = AttentionMethod::ring}); }});
  all.push_back(
      {"neighborhood_attention",
       {{4, 8, 2, 4}, {4, 8, 2, 4}, {4, 8, 2, 4}},
       {{"batch", {0, 0, 0}}, {"grid", {1, 1, 1}}, {"heads", {2, 2, 2}}, {"head size", {3, 3, 3}}},
       [](const Operands& t) { return neighborhood_attention(t[0], t[1], t[2], {.kernel_size = {3}}); }});
  using Loss = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Loss> losses[] = {{"mse_loss", mse_loss},
                                                 {"l1_loss", l1_loss},
                                                 {"relative_l2_loss", relative_l2_loss},
                                                 {"vrmse_loss", vrmse_loss}};
  for (const auto& [name, op] : losses) {
    all.push_back({name, {{2, 8, 4}, {2, 8, 4}}, {{"any", {1, 1}}}, [op = op](const Operands& t) {
                     return op(t[0], t[1]);
                   }});
  }
  all.push_back({"cross_entropy", {{8, 8}}, {{"rows", {0}}, {"classes", {1}}}, [](const Operands& t) {
                   return cross_entropy(t[0], Tensor::zeros({8}, DType::i64));
                 }});
}

}  // namespace

std::vector<OperatorSample> operator_samples() {
  std::vector<OperatorSample> all;
  add_elementwise(all);
  add_reductions(all);
  add_shapes(all);
  add_windows(all);
  add_products_norms_losses(all);
  return all;
}

}  // namespace tessera::testing
