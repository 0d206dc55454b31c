#include "solver/ops/matmul/matmul.hpp"

#include "solver/ops/elementwise/broadcast.hpp"
#include "solver/ops/linear/gemm.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

const Operator& kMatmul =
    register_operator({.name = "matmul",
                       .signature = "matmul(a, b)",
                       .family = "products",
                       .cuts = {{"batch"}, {"rows of a"}, {"columns of b"}, {"contracted", Moves::partial}},
                       .rule = index_rule("... m k, ... k n -> ... m n")});

/// Where the matrices of one operand lie, for each matrix of the result.
std::vector<Index> matrices_of(const Shape& operand, const Shape& y) {
  const int batch_dims = y.size() - 2;
  Shape strides = Shape::filled(batch_dims, 0), batch;
  Index stride = 1;
  for (int d = batch_dims - 1; d >= 0; --d) {
    const int own = d - (y.size() - operand.size());
    if (own < 0) continue;
    if (operand[own] == y[d]) strides[d] = stride;
    stride *= operand[own];
  }
  Index matrices = 1;
  for (int d = 0; d < batch_dims; ++d) matrices *= y[d];
  std::vector<Index> result;
  for (Index i = 0; i < matrices; ++i) {
    Index rest = i, at = 0;
    for (int d = batch_dims - 1; d >= 0; --d) {
      at += rest % y[d] * strides[d];
      rest /= y[d];
    }
    result.push_back(at);
  }
  return result;
}

/// One operand of a batch of products: its matrices in the order of the products.
struct Operand {
  const void* data = nullptr;
  std::vector<Index> matrix;
  Index elements = 0;  ///< of a matrix
};

/// Runs of products whose operands advance by constant strides go to one call.
struct Run {
  Index first = 0, count = 1, step_a = 0, step_b = 0, step_c = 0;
};

std::vector<Run> runs_of(const Operand& a, const Operand& b, const Operand& c) {
  std::vector<Run> runs;
  const auto step = [](const Operand& o, std::size_t i) { return o.matrix[i + 1] - o.matrix[i]; };
  for (std::size_t i = 0; i < c.matrix.size();) {
    Run run{static_cast<Index>(i)};
    const std::size_t first = i++;
    // Results that are added up, or written in an order that is not theirs, go one by one.
    while (i < c.matrix.size() && step(c, i - 1) == 1 && step(a, i - 1) == step(a, first) &&
           step(b, i - 1) == step(b, first) && step(a, first) >= 0 && step(b, first) >= 0) {
      ++i;
    }
    run.count = static_cast<Index>(i - first);
    if (run.count > 1) run.step_a = step(a, first), run.step_b = step(b, first), run.step_c = 1;
    runs.push_back(run);
  }
  return runs;
}

/// c[i] = or += op(a[i]) op(b[i]), with the sizes and transpositions of `g`. `c` has been zeroed if its
/// matrices repeat.
void products(Gemm g, const Operand& a, const Operand& b, const Operand& c, void* out) {
  const auto size = static_cast<Index>(size_of(g.type));
  for (const Run& run : runs_of(a, b, c)) {
    const auto i = static_cast<std::size_t>(run.first);
    g.batch = run.count;
    g.stride_a = run.step_a * a.elements;
    g.stride_b = run.step_b * b.elements;
    g.stride_c = run.step_c * c.elements;
    gemm(g, static_cast<const char*>(a.data) + a.matrix[i] * a.elements * size,
         static_cast<const char*>(b.data) + b.matrix[i] * b.elements * size,
         static_cast<char*>(out) + c.matrix[i] * c.elements * size);
  }
}

Operand operand_of(const Tensor& t, const Shape& y) {
  const Shape& local = t.local_shape();
  return {t.raw(), matrices_of(local, y), local[local.size() - 2] * local.back()};
}

bool repeats(const Operand& o) {
  Index matrices = 0;
  for (Index m : o.matrix) matrices = std::max(matrices, m + 1);
  return matrices < static_cast<Index>(o.matrix.size());
}

/// The batch dimensions of the local result; m and n do not matter.
struct Product {
  Shape y;  // local
  Index m, n, k;
  DType type;
};

Tensor gradient(const Product& p, const Tensor& gy, const Tensor& other, const Tensor& like,
                const Layout& layout, bool of_a) {
  const Tensor result = Tensor::zeros(layout, like.shape(), p.type);
  const Operand g = operand_of(gy, p.y), o = operand_of(other, p.y), r = operand_of(result, p.y);
  Gemm spec{.type = p.type, .out = p.type};
  spec.accumulate = repeats(r);
  if (of_a) {  // (m, k) = gy (m, n) b^T
    spec.m = p.m, spec.n = p.k, spec.k = p.n, spec.transpose_b = true;
    products(spec, g, o, r, result.raw());
  } else {  // (k, n) = a^T gy
    spec.m = p.k, spec.n = p.n, spec.k = p.m, spec.transpose_a = true;
    products(spec, o, g, r, result.raw());
  }
  return result;
}

Tensor product(const Tensor& a_in, const Tensor& b_in) {
  Shape a_batch = a_in.shape(), b_batch = b_in.shape();
  for (Shape* s : {&a_batch, &b_batch}) s->pop_back(), s->pop_back();
  Shape shape = broadcast_shape(a_batch, b_batch, "matmul");
  shape.push_back(a_in.dim(-2));
  shape.push_back(b_in.dim(-1));
  const OperatorCall call(kMatmul, {a_in, b_in});
  const Tensor &a = call[0], &b = call[1];
  Tensor y = call.empty_result(shape, a.dtype());
  const Product p{y.local_shape(), a.local_shape()[a.ndim() - 2], b.local_shape().back(),
                  a.local_shape().back(), a.dtype()};
  products({.m = p.m, .n = p.n, .k = p.k, .type = p.type, .out = p.type}, operand_of(a, p.y),
           operand_of(b, p.y), operand_of(y, p.y), y.raw());
  record("matmul", {a, b}, y,
         [p, da = call.gradient_layout(0), db = call.gradient_layout(1), a = a.detach(), b = b.detach(),
          need_a = a.requires_grad(), need_b = b.requires_grad()](const Tensor& gy) {
           Gradients grads(2);
           if (need_a) grads[0] = gradient(p, gy, b, a, da, true);
           if (need_b) grads[1] = gradient(p, gy, a, b, db, false);
           return grads;
         });
  return y;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  const bool row = a.ndim() == 1, column = b.ndim() == 1;
  if (a.ndim() < 1 || b.ndim() < 1 || a.dtype() != b.dtype() || a.dim(-1) != b.dim(column ? 0 : -2)) {
    fail(ExitCode::usage, "matmul", "found {} and {}, expected (..., m, k) and (..., k, n) of one type",
         describe(a), describe(b));
  }
  check_floating("matmul", a);
  Tensor y = product(row ? unsqueeze(a, 0) : a, column ? unsqueeze(b, 1) : b);
  if (column) y = squeeze(y, -1);
  if (row) y = squeeze(y, y.ndim() - (column ? 1 : 2));
  return y;
}

}  // namespace tessera
