#include "solver/ops/linear/gemm.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "parallel/error.hpp"
#include "parallel/memory.hpp"
#include "solver/ops/onednn/onednn.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera {
namespace {

Gemm with_tight_strides(Gemm g) {
  if (g.lda == 0) g.lda = g.transpose_a ? g.m : g.k;
  if (g.ldb == 0) g.ldb = g.transpose_b ? g.k : g.n;
  if (g.ldc == 0) g.ldc = g.n;
  return g;
}

/// Dense f32 products for which the matmul primitive beats sgemm, which copies its operands first: those of
/// few columns, and those of transposed wide matrices. Measured with oneDNN 2.6 on AVX-512.
bool matmul_is_faster(const Gemm& g, bool has_bias) {
  constexpr Index least = Index{1} << 20;  // multiply-adds that are worth a primitive's call
  if (g.m * g.n * g.k < least || has_bias || g.transpose_b || g.ldb != g.n || g.ldc != g.n) return false;
  return g.transpose_a ? std::max(g.m, g.n) >= 1024 : g.n <= 128;
}

/// C = bias, or zero.
template <typename T>
void fill_rows(const Gemm& g, T* c, const T* bias) {
  const Index n = g.n, m = g.m, ldc = g.ldc, stride = g.stride_c;
  Kokkos::parallel_for(
      "gemm_fill", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, m * g.batch), KOKKOS_LAMBDA(Index i) {
        T* row = c + (i / m) * stride + (i % m) * ldc;
        for (Index j = 0; j < n; ++j) {
          if (bias)
            row[j] = bias[j];
          else
            store(row[j], 0.f);
        }
      });
}

void gemm_f32(const Gemm& g, const float* a, const float* b, float* c, const float* bias) {
  if (bias) fill_rows(g, c, bias);
  const float beta = bias || g.accumulate ? 1.f : 0.f;
  for (Index i = 0; i < g.batch; ++i) {
    const auto status =
        dnnl::sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.f,
                    a + i * g.stride_a, g.lda, b + i * g.stride_b, g.ldb, beta, c + i * g.stride_c, g.ldc);
    require(status == dnnl::status::success, "gemm", "oneDNN refused {} x {} x {}", g.m, g.n, g.k);
  }
}

/// to (rows, columns) = from (rows, columns), each with its own distance between rows.
template <typename To, typename From>
void convert_rows(Index rows, Index columns, To* to, Index to_stride, const From* from, Index from_stride) {
  for_each(
      "gemm_convert", rows, KOKKOS_LAMBDA(Index r) {
        for (Index c = 0; c < columns; ++c) store(to[r * to_stride + c], load(from[r * from_stride + c]));
      });
}

/// bf16 operands multiplied in f32.
void gemm_widened(const Gemm& g, const bfloat16* a, const bfloat16* b, void* c, const void* bias) {
  const Index a_rows = g.transpose_a ? g.k : g.m, a_columns = g.transpose_a ? g.m : g.k;
  const Index b_rows = g.transpose_b ? g.n : g.k, b_columns = g.transpose_b ? g.k : g.n;
  const auto floats = [](Index n) {
    return MemoryBlock(MemorySpace::device, static_cast<std::size_t>(n) * sizeof(float));
  };
  const bool narrows = g.out != DType::f32;
  const MemoryBlock wide_a = floats(g.m * g.k), wide_b = floats(g.n * g.k),
                    wide_c = floats(narrows ? g.m * g.n : 0), wide_bias = floats(narrows && bias ? g.n : 0);
  Gemm wide{.m = g.m, .n = g.n, .k = g.k, .transpose_a = g.transpose_a, .transpose_b = g.transpose_b};
  wide.accumulate = g.accumulate;
  wide = with_tight_strides(wide);
  auto* fa = static_cast<float*>(wide_a.data());
  auto* fb = static_cast<float*>(wide_b.data());
  for (Index i = 0; i < g.batch; ++i) {
    if (i == 0 || g.stride_a != 0) convert_rows(a_rows, a_columns, fa, a_columns, a + i * g.stride_a, g.lda);
    if (i == 0 || g.stride_b != 0) convert_rows(b_rows, b_columns, fb, b_columns, b + i * g.stride_b, g.ldb);
    if (!narrows) {
      wide.ldc = g.ldc;
      gemm_f32(wide, fa, fb, static_cast<float*>(c) + i * g.stride_c, static_cast<const float*>(bias));
      continue;
    }
    auto* narrow_c = static_cast<bfloat16*>(c) + i * g.stride_c;
    auto* fc = static_cast<float*>(wide_c.data());
    auto* fbias = bias ? static_cast<float*>(wide_bias.data()) : nullptr;
    if (bias) convert_rows(1, g.n, fbias, g.n, static_cast<const bfloat16*>(bias), g.n);
    if (g.accumulate) convert_rows(g.m, g.n, fc, g.n, narrow_c, g.ldc);
    gemm_f32(wide, fa, fb, fc, fbias);
    convert_rows(g.m, g.n, narrow_c, g.ldc, fc, g.n);
  }
}

/// A matmul primitive of one shape, and the descriptors of its operands.
struct Matmul {
  dnnl::memory::desc a, b, c, bias;
  dnnl::matmul primitive;
};

Matmul make_matmul(const Gemm& g, bool has_bias) {
  using Dims = dnnl::memory::dims;
  const Dims strides_a = g.transpose_a ? Dims{g.stride_a, 1, g.lda} : Dims{g.stride_a, g.lda, 1};
  const Dims strides_b = g.transpose_b ? Dims{g.stride_b, 1, g.ldb} : Dims{g.stride_b, g.ldb, 1};
  const Dims strides_c{g.stride_c, g.ldc, 1};
  // One matrix needs no batch dimension, and 2-D problems reach the faster kernels.
  const bool flat = g.batch == 1;
  const auto describe = [&](Index rows, Index columns, const Dims& strides, DType type) {
    if (flat)
      return dnnl::memory::desc({rows, columns}, onednn::data_type(type),
                                Dims(strides.begin() + 1, strides.end()));
    return dnnl::memory::desc({g.batch, rows, columns}, onednn::data_type(type), strides);
  };
  Matmul result;
  result.a = describe(g.m, g.k, strides_a, g.type);
  result.b = describe(g.k, g.n, strides_b, g.type);
  result.c = describe(g.m, g.n, strides_c, g.out);
  if (has_bias) {
    result.bias = dnnl::memory::desc(flat ? Dims{1, g.n} : Dims{1, 1, g.n}, onednn::data_type(g.out),
                                     flat ? Dims{g.n, 1} : Dims{g.n, g.n, 1});
  }
  dnnl::primitive_attr attributes;
  if (g.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.f);
    attributes.set_post_ops(sum);
  }
  const auto descriptor = has_bias ? dnnl::matmul::desc(result.a, result.b, result.bias, result.c)
                                   : dnnl::matmul::desc(result.a, result.b, result.c);
  result.primitive = dnnl::matmul(dnnl::matmul::primitive_desc(descriptor, attributes, onednn::engine()));
  return result;
}

/// Primitives by shape. Shapes repeat step after step; a program that keeps meeting new ones starts over now
/// and then.
const Matmul& cached_matmul(const Gemm& g, bool has_bias) {
  using Key = std::array<Index, 14>;
  constexpr std::size_t most = 512;
  static std::map<Key, Matmul> cache;
  const Index flags = g.transpose_a + 2 * g.transpose_b + 4 * g.accumulate + 8 * has_bias;
  const Key key{g.m,
                g.n,
                g.k,
                g.lda,
                g.ldb,
                g.ldc,
                g.batch,
                g.stride_a,
                g.stride_b,
                g.stride_c,
                flags,
                static_cast<Index>(g.type),
                static_cast<Index>(g.out),
                0};
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  if (cache.size() >= most) cache.clear();
  return cache.emplace(key, make_matmul(g, has_bias)).first->second;
}

void gemm_onednn(const Gemm& g, const void* a, const void* b, void* c, const void* bias) {
  const Matmul& matmul = cached_matmul(g, bias != nullptr);
  const auto memory = [](const dnnl::memory::desc& d, const void* data) {
    return dnnl::memory(d, onednn::engine(), const_cast<void*>(data));
  };
  std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, memory(matmul.a, a)},
                                                  {DNNL_ARG_WEIGHTS, memory(matmul.b, b)},
                                                  {DNNL_ARG_DST, memory(matmul.c, c)}};
  if (bias) arguments.emplace(DNNL_ARG_BIAS, memory(matmul.bias, bias));
  matmul.primitive.execute(onednn::stream(), arguments);
  onednn::stream().wait();
}

/// One row of C per work item.
void gemm_reference(const Gemm& g, const double* a, const double* b, double* c, const double* bias) {
  const Gemm s = g;
  Kokkos::parallel_for(
      "gemm_reference", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, s.m * s.batch),
      KOKKOS_LAMBDA(Index i) {
        const Index matrix = i / s.m, row = i % s.m;
        const double* a_row = a + matrix * s.stride_a + (s.transpose_a ? row : row * s.lda);
        const Index a_step = s.transpose_a ? s.lda : 1;
        const double* b_matrix = b + matrix * s.stride_b;
        double* c_row = c + matrix * s.stride_c + row * s.ldc;
        if (!s.accumulate) {
          for (Index j = 0; j < s.n; ++j) c_row[j] = bias ? bias[j] : 0.0;
        }
        if (s.transpose_b) {
          for (Index j = 0; j < s.n; ++j) {
            double sum = 0;
            for (Index k = 0; k < s.k; ++k) sum += a_row[k * a_step] * b_matrix[j * s.ldb + k];
            c_row[j] += sum;
          }
        } else {
          for (Index k = 0; k < s.k; ++k) {
            const double factor = a_row[k * a_step];
            const double* b_row = b_matrix + k * s.ldb;
            for (Index j = 0; j < s.n; ++j) c_row[j] += factor * b_row[j];
          }
        }
      });
}

}  // namespace

void gemm(const Gemm& spec, const void* a, const void* b, void* c, const void* bias) {
  const Gemm g = with_tight_strides(spec);
  require(!(bias && g.accumulate), "gemm", "found both a bias and accumulation, expected one of them");
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  if (g.k == 0) {
    if (g.accumulate) return;
    return dispatch_floating(g.out, "gemm", [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      fill_rows(g, static_cast<T*>(c), static_cast<const T*>(bias));
    });
  }
  if (g.type == DType::f64) {
    require(g.out == DType::f64, "gemm", "found f64 operands and a result in {}", name_of(g.out));
    return gemm_reference(g, static_cast<const double*>(a), static_cast<const double*>(b),
                          static_cast<double*>(c), static_cast<const double*>(bias));
  }
  if (g.type == DType::f32) {
    require(g.out == DType::f32, "gemm", "found f32 operands and a result in {}", name_of(g.out));
    if (matmul_is_faster(g, bias != nullptr)) return gemm_onednn(g, a, b, c, bias);
    return gemm_f32(g, static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c),
                    static_cast<const float*>(bias));
  }
  if (onednn::multiplies_bf16_faster()) return gemm_onednn(g, a, b, c, bias);
  gemm_widened(g, static_cast<const bfloat16*>(a), static_cast<const bfloat16*>(b), c, bias);
}

namespace {

template <typename T, typename U>
void sum_rows_of(Index rows, Index n, const T* x, U* sum) {
  using A = Compute<T>;
  constexpr Index block = 128;
  const Index blocks = (rows + block - 1) / block;
  const MemoryBlock buffer(MemorySpace::device, static_cast<std::size_t>(blocks * n) * sizeof(A));
  A* partial = static_cast<A*>(buffer.data());
  for_each(
      "sum_rows_block", blocks, KOKKOS_LAMBDA(Index b) {
        A* out = partial + b * n;
        for (Index j = 0; j < n; ++j) out[j] = 0;
        const Index last = (b + 1) * block < rows ? (b + 1) * block : rows;
        for (Index i = b * block; i < last; ++i) {
          const T* row = x + i * n;
          for (Index j = 0; j < n; ++j) out[j] += load(row[j]);
        }
      });
  for_each(
      "sum_rows", n, KOKKOS_LAMBDA(Index j) {
        double total = 0;
        for (Index b = 0; b < blocks; ++b) total += static_cast<double>(partial[b * n + j]);
        store(sum[j], total);
      });
}

}  // namespace

void sum_rows(Index rows, Index n, DType type, const void* x, DType out, void* sum) {
  dispatch_floating(type, "sum_rows", [&](auto* in_tag) {
    using T = std::remove_pointer_t<decltype(in_tag)>;
    dispatch_floating(out, "sum_rows", [&](auto* out_tag) {
      using U = std::remove_pointer_t<decltype(out_tag)>;
      sum_rows_of(rows, n, static_cast<const T*>(x), static_cast<U*>(sum));
    });
  });
}

}  // namespace tessera
