#include "solver/ops/taps/axis_taps.hpp"

#include "solver/ops/device_array.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

/// x (outer, inputs, inner) -> y (outer, outputs, inner).
template <typename T>
void apply(T* y, const T* x, Index outer, Index inner, Index inputs, Index outputs, const Index* first,
           const Index* input, const double* weight) {
  using C = Compute<T>;
  constexpr Index lanes = 32;
  for_each(
      "axis_taps", outer * outputs, KOKKOS_LAMBDA(Index row) {
        const Index o = row % outputs;
        const T* from = x + row / outputs * inputs * inner;
        for (Index begin = 0; begin < inner; begin += lanes) {
          const Index width = inner - begin < lanes ? inner - begin : lanes;
          C sum[lanes];
          for (Index l = 0; l < width; ++l) sum[l] = 0;
          for (Index t = first[o]; t < first[o + 1]; ++t) {
            const T* column = from + input[t] * inner + begin;
            const C w = static_cast<C>(weight[t]);
            for (Index l = 0; l < width; ++l) sum[l] += w * load(column[l]);
          }
          for (Index l = 0; l < width; ++l) store(y[row * inner + begin + l], sum[l]);
        }
      });
}

}  // namespace

AxisTaps AxisTaps::transposed() const {
  AxisTaps result(outputs());
  std::vector<Index> next(static_cast<std::size_t>(inputs_) + 1, 0);
  for (Index i : input_) ++next[static_cast<std::size_t>(i) + 1];
  for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  result.first_ = next;
  result.input_.resize(input_.size());
  result.weight_.resize(input_.size());
  for (Index o = 0; o < outputs(); ++o) {
    for (Index t = first_[static_cast<std::size_t>(o)]; t < first_[static_cast<std::size_t>(o) + 1]; ++t) {
      const auto tap = static_cast<std::size_t>(t);
      const auto to = static_cast<std::size_t>(next[static_cast<std::size_t>(input_[tap])]++);
      result.input_[to] = o;
      result.weight_[to] = weight_[tap];
    }
  }
  return result;
}

AxisTaps AxisTaps::shifted(Index lo, Index inputs) const {
  AxisTaps result = *this;
  result.inputs_ = inputs;
  for (Index& i : result.input_) i -= lo;
  return result;
}

Range AxisTaps::needed() const {
  if (input_.empty()) return {0, 0};
  const auto [least, most] = std::minmax_element(input_.begin(), input_.end());
  return {*least, *most + 1};
}

Tensor apply_taps(const Tensor& x, int dim, const AxisTaps& taps) {
  require(!x.is_shard() && x.dim(dim) == taps.inputs(), "axis_taps", "found {}, expected {} on dimension {}",
          describe(x), taps.inputs(), dim);
  Shape shape = x.shape();
  shape[dim] = taps.outputs();
  const Tensor y = Tensor::empty(shape, x.dtype());
  if (count(shape) == 0) return y;
  Index outer = 1, inner = 1;
  for (int d = 0; d < dim; ++d) outer *= shape[d];
  for (int d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const auto first = device_copy(taps.first()), input = device_copy(taps.tap_inputs());
  const auto weight = device_copy(taps.weights());
  dispatch_floating(x.dtype(), "axis_taps", [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    apply(y.data<T>(), x.data<T>(), outer, inner, taps.inputs(), taps.outputs(), first.data(), input.data(),
          weight.data());
  });
  return y;
}

Tensor apply_taps(const Tensor& x, std::span<const AxisTaps> taps) {
  Tensor y = x;
  for (std::size_t a = 0; a < taps.size(); ++a) y = apply_taps(y, static_cast<int>(a) + 1, taps[a]);
  return y;
}

}  // namespace tessera
