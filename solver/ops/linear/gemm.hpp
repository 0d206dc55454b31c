#pragma once

#include "parallel/dtype.hpp"
#include "parallel/inline_vector.hpp"

namespace tessera {

/// C (m, n) = op(A) (m, k) op(B) (k, n) [+ C] [+ bias], row-major, `batch` times.
/// f32: oneDNN. bf16 operands: oneDNN with f32 accumulation, C in bf16 or f32; widened to f32 first on
/// processors that multiply f32 faster. f64: a Kokkos kernel.
struct Gemm {
  Index m = 0;
  Index n = 0;
  Index k = 0;
  bool transpose_a = false;  ///< A is stored (k, m)
  bool transpose_b = false;  ///< B is stored (n, k)
  Index lda = 0;             ///< elements between stored rows; 0: tight
  Index ldb = 0;
  Index ldc = 0;
  Index batch = 1;
  Index stride_a = 0;  ///< elements between the matrices of a batch; 0: one matrix for all
  Index stride_b = 0;
  Index stride_c = 0;
  bool accumulate = false;  ///< add to C; else C is overwritten, whatever it holds
  DType type = DType::f32;  ///< of A and B
  DType out = DType::f32;   ///< of C and bias
};

/// Device pointers. `bias` (n) is added to every row; not together with `accumulate`. Zero sizes are legal; k
/// = 0 leaves the bias or zero.
void gemm(const Gemm& spec, const void* a, const void* b, void* c, const void* bias = nullptr);

/// sum (n) = sums over the rows of x (rows, n), in a fixed order. `x` is f32, f64 or bf16, `sum` of the type
/// `out`.
void sum_rows(Index rows, Index n, DType type, const void* x, DType out, void* sum);

}  // namespace tessera
