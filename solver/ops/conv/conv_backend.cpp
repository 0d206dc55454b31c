#include "solver/ops/conv/conv_backend.hpp"

#include "parallel/memory.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera {
namespace {

/// A dense buffer of one type as a tensor, so that it can be converted.
Tensor view(const void* data, Index elements, DType type) {
  return Tensor::wrap(nullptr, const_cast<void*>(data), Shape{elements}, type);
}

/// bf16 where oneDNN declines, or is slower: computed in f32.
ConvProblem in_f32(ConvProblem problem) {
  problem.type = problem.weight_gradient_type = DType::f32;
  return problem;
}

void zero(DType type, Index elements, void* data) {
  zero_bytes(data, MemorySpace::device, static_cast<std::size_t>(elements) * size_of(type));
}

Index rows_of(const Shape& grid, Index batch) {
  return batch * count(grid);
}

}  // namespace

void conv_forward(const ConvProblem& problem, const void* src, const void* weights, const void* bias,
                  void* dst) {
  if (problem.dst_count() == 0) return;
  const Index rows = rows_of(problem.out, problem.batch);
  if (problem.src_count() == 0) {
    if (bias) return fill_rows(problem.type, rows, problem.out_channels, bias, dst);
    return zero(problem.type, problem.dst_count(), dst);
  }
  if (conv_onednn::supports(problem)) return conv_onednn::forward(problem, src, weights, bias, dst);
  if (problem.type == DType::bf16) {
    const Tensor x = view(src, problem.src_count(), DType::bf16).to(DType::f32);
    const Tensor w = view(weights, problem.weight_count(), DType::bf16).to(DType::f32);
    const Tensor y = Tensor::empty(Shape{problem.dst_count()}, DType::f32);
    conv_forward(in_f32(problem), x.raw(), w.raw(), nullptr, y.raw());
    view(dst, problem.dst_count(), DType::bf16).copy_from(y);
  } else {
    conv_direct::forward(problem, src, weights, dst);
  }
  if (bias) add_rows(problem.type, rows, problem.out_channels, bias, dst);
}

void conv_backward_data(const ConvProblem& problem, const void* dst, const void* weights, const void* bias,
                        void* src) {
  if (problem.src_count() == 0) return;
  const Index rows = rows_of(problem.in, problem.batch);
  if (problem.dst_count() == 0) {
    if (bias) return fill_rows(problem.type, rows, problem.in_channels, bias, src);
    return zero(problem.type, problem.src_count(), src);
  }
  if (conv_onednn::supports(problem)) {
    conv_onednn::backward_data(problem, dst, weights, src);
  } else if (problem.type == DType::bf16) {
    const Tensor y = view(dst, problem.dst_count(), DType::bf16).to(DType::f32);
    const Tensor w = view(weights, problem.weight_count(), DType::bf16).to(DType::f32);
    const Tensor x = Tensor::empty(Shape{problem.src_count()}, DType::f32);
    conv_backward_data(in_f32(problem), y.raw(), w.raw(), nullptr, x.raw());
    view(src, problem.src_count(), DType::bf16).copy_from(x);
  } else {
    conv_direct::backward_data(problem, dst, weights, src);
  }
  if (bias) add_rows(problem.type, rows, problem.in_channels, bias, src);
}

void conv_backward_weights(const ConvProblem& problem, const void* src, const void* dst, void* weights,
                           void* bias) {
  const Index rows = rows_of(problem.out, problem.batch);
  if (problem.src_count() == 0 || problem.dst_count() == 0) {
    zero(problem.weight_gradient_type, problem.weight_count(), weights);
    if (bias) sum_rows(problem.type, rows, problem.out_channels, dst, problem.weight_gradient_type, bias);
    return;
  }
  if (conv_onednn::supports_weights(problem))
    return conv_onednn::backward_weights(problem, src, dst, weights, bias);
  if (problem.type == DType::bf16) {
    const Tensor x = view(src, problem.src_count(), DType::bf16).to(DType::f32);
    const Tensor y = view(dst, problem.dst_count(), DType::bf16).to(DType::f32);
    const Tensor result = view(weights, problem.weight_count(), problem.weight_gradient_type);
    const bool in_place = result.dtype() == DType::f32;
    const Tensor w = in_place ? result : Tensor::empty(result.shape(), DType::f32);
    conv_backward_weights(in_f32(problem), x.raw(), y.raw(), w.raw(), nullptr);
    if (!in_place) result.copy_from(w);
  } else {
    conv_direct::backward_weights(problem, src, dst, weights);
  }
  if (bias) sum_rows(problem.type, rows, problem.out_channels, dst, problem.weight_gradient_type, bias);
}

namespace {

template <typename T, typename U>
void sum_rows_as(Index rows, Index channels, const T* values, U* sums) {
  constexpr Index chunks = kRowAddends;
  const Tensor partial = Tensor::zeros(Shape{chunks, channels}, DType::f64);
  double* sum = partial.data<double>();
  for_each(
      "sum_rows", chunks, KOKKOS_LAMBDA(const Index chunk) {
        double* mine = sum + chunk * channels;
        for (Index r = rows * chunk / chunks; r < rows * (chunk + 1) / chunks; ++r) {
          for (Index c = 0; c < channels; ++c) mine[c] += static_cast<double>(load(values[r * channels + c]));
        }
      });
  for_each(
      "sum_rows_chunks", channels, KOKKOS_LAMBDA(const Index c) {
        double total = 0;
        for (Index chunk = 0; chunk < chunks; ++chunk) total += sum[chunk * channels + c];
        store(sums[c], total);
      });
}

template <typename T>
void add_rows_as(Index rows, Index channels, const T* bias, T* values) {
  for_each(
      "add_rows", rows, KOKKOS_LAMBDA(const Index r) {
        T* row = values + r * channels;
        for (Index c = 0; c < channels; ++c) store(row[c], load(row[c]) + load(bias[c]));
      });
}

template <typename T>
void fill_rows_as(Index rows, Index channels, const T* bias, T* values) {
  for_each(
      "fill_rows", rows, KOKKOS_LAMBDA(const Index r) {
        for (Index c = 0; c < channels; ++c) values[r * channels + c] = bias[c];
      });
}

}  // namespace

void sum_rows(DType type, Index rows, Index channels, const void* values, DType out, void* sums) {
  dispatch_floating(type, "conv", [&]<typename T>(T*) {
    dispatch_floating(out, "conv", [&]<typename U>(U*) {
      sum_rows_as(rows, channels, static_cast<const T*>(values), static_cast<U*>(sums));
    });
  });
}

void add_rows(DType type, Index rows, Index channels, const void* bias, void* values) {
  dispatch_floating(type, "conv", [&]<typename T>(T*) {
    add_rows_as(rows, channels, static_cast<const T*>(bias), static_cast<T*>(values));
  });
}

void fill_rows(DType type, Index rows, Index channels, const void* bias, void* values) {
  dispatch_floating(type, "conv", [&]<typename T>(T*) {
    fill_rows_as(rows, channels, static_cast<const T*>(bias), static_cast<T*>(values));
  });
}

}  // namespace tessera
