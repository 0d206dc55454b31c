#include "solver/tensor/random.hpp"

#include <numeric>
#include <utility>

namespace tessera {
namespace {

enum class Kind { uniform, normal };

// Where the rows (last dimension) of a box lie in the global row-major order; passed to kernels by value.
struct RowMap {
  int outer = 0;                // dimensions but the last
  Index extent[kMaxDims] = {};  // of the box
  Index origin[kMaxDims] = {};  // of the box in the global space
  Index stride[kMaxDims] = {};  // global

  // Global index of the first element of local row r.
  KOKKOS_INLINE_FUNCTION Index first(Index r) const {
    Index global = origin[outer];
    for (int d = outer - 1; d >= 0; --d) {
      global += (origin[d] + r % extent[d]) * stride[d];
      r /= extent[d];
    }
    return global;
  }
};

RowMap row_map(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const Box box = tensor.is_shard() ? tensor.layout().local_box() : Box::whole(shape);
  RowMap map;
  map.outer = shape.size() - 1;
  Index stride = 1;
  for (int d = map.outer; d >= 0; --d) {
    map.extent[d] = box[d].size();
    map.origin[d] = box[d].lo;
    map.stride[d] = stride;
    stride *= shape[d];
  }
  return map;
}

KOKKOS_INLINE_FUNCTION void assign(float& to, double value) {
  to = static_cast<float>(value);
}
KOKKOS_INLINE_FUNCTION void assign(double& to, double value) {
  to = value;
}

template <typename T>
void fill(const Tensor& tensor, const CounterRandom random, Kind kind, double offset, double scale) {
  if (tensor.local_count() == 0) return;
  T* out = tensor.data<T>();
  const RowMap map = tensor.ndim() > 0 ? row_map(tensor) : RowMap{};
  const Index width = tensor.ndim() > 0 ? tensor.local_shape().back() : 1;
  const Index rows = tensor.local_count() / width;
  Kokkos::parallel_for(
      "fill_random", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, rows), KOKKOS_LAMBDA(Index r) {
        const Index first = map.first(r);
        for (Index i = 0; i < width; ++i) {
          const auto index = static_cast<std::uint64_t>(first + i);
          assign(out[r * width + i],
                 offset + scale * (kind == Kind::normal ? random.normal(index) : random.uniform(index)));
        }
      });
  tensor.mark_written();
}

void fill_any(const Tensor& tensor, const CounterRandom& random, Kind kind, double offset, double scale) {
  switch (tensor.dtype()) {
    case DType::f32:
      return fill<float>(tensor, random, kind, offset, scale);
    case DType::f64:
      return fill<double>(tensor, random, kind, offset, scale);
    case DType::bf16: {  // drawn in single precision, then rounded
      const Tensor single = Tensor::empty(tensor.layout(), tensor.shape(), DType::f32);
      fill<float>(single, random, kind, offset, scale);
      return tensor.copy_from(single);
    }
    default:
      fail(ExitCode::internal, "fill_random", "found element type {}", name_of(tensor.dtype()));
  }
}

}  // namespace

std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

std::vector<Index> random_permutation(Index n, const CounterRandom& random) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i, i)]);
  return order;
}

void fill_uniform(const Tensor& tensor, const CounterRandom& random, double low, double high) {
  fill_any(tensor, random, Kind::uniform, low, high - low);
}

void fill_normal(const Tensor& tensor, const CounterRandom& random, double mean, double deviation) {
  fill_any(tensor, random, Kind::normal, mean, deviation);
}

}  // namespace tessera
