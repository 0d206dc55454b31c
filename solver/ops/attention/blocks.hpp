#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "parallel/ring.hpp"
#include "solver/ops/attention/kernel.hpp"
#include "solver/tensor/numeric.hpp"

// Internal to attention: the key/value blocks that a rank meets, its own and those that come round.
namespace tessera::attention_detail {

/// Whose blocks travel, and what is in them.
struct BlockRing {
  CommPtr comm;                      ///< null: one block, the local one
  std::vector<Positions> positions;  ///< tokens of each ring rank's block
  std::vector<Index> k_elements;     ///< a block is [k | v]
  std::vector<Index> elements;
};

/// `axes`: the mesh axes round which blocks travel.
BlockRing make_ring(const Tensor& k, const Tensor& v, const std::vector<int>& axes);

/// The values in the type of arithmetic: the tensor itself, or a converted copy.
template <typename T>
Tensor widened(const Tensor& x) {
  const Tensor plain = x.detach().as_plain();
  return std::is_same_v<T, Compute<T>> ? plain : plain.to(dtype_of<Compute<T>>);
}

/// A tensor of the values from `first` on: the memory itself, or a converted copy.
template <typename T>
Tensor narrowed(const DeviceArray<Compute<T>>& values, Index first, const Layout& layout,
                const Shape& shape) {
  const Shape& local = layout ? layout.local_shape() : shape;
  Compute<T>* from = values.data() + first;
  Tensor result;
  if constexpr (std::is_same_v<T, Compute<T>>) {
    result = Tensor::wrap(values.handle(), from, local, dtype_of<T>);
  } else {
    result = Tensor::empty(local, dtype_of<T>);
    T* to = result.data<T>();
    for_each(
        "attention_narrow", result.local_count(), KOKKOS_LAMBDA(Index i) { store(to[i], from[i]); });
  }
  return layout ? result.with_layout(layout) : result;
}

template <typename T>
void widen(const T* from, Index n, Compute<T>* to) {
  for_each(
      "attention_widen", n, KOKKOS_LAMBDA(Index i) { to[i] = load(from[i]); });
}

template <typename T>
DeviceArray<T> packed(const Tensor& k, const Tensor& v) {
  DeviceArray<T> block(k.local_count() + v.local_count());
  copy_bytes(block.data(), MemorySpace::device, k.raw(), MemorySpace::device, k.bytes());
  copy_bytes(block.data() + k.local_count(), MemorySpace::device, v.raw(), MemorySpace::device, v.bytes());
  return block;
}

/// Calls use(owner, k, v) for every block, the local one first, while the next one travels; advance() follows
/// each call.
template <typename T, typename Use, typename Advance>
void for_each_block(const BlockRing& ring, const Tensor& k, const Tensor& v, const Use& use,
                    const Advance& advance) {
  using A = Compute<T>;
  if (!ring.comm) {
    const Tensor wide_k = widened<T>(k), wide_v = widened<T>(v);
    use(0, wide_k.data<A>(), wide_v.data<A>());
    return advance();
  }
  const DeviceArray<T> own = packed<T>(k, v);
  RingRotation rotation(ring.comm, ring.elements, dtype_of<T>);
  rotation.start(own.data());
  const int size = ring.comm->size();
  for (int step = 0; step < size; ++step) {
    const auto owner = static_cast<std::size_t>(rotation.owner());
    if (step + 1 < size) rotation.prefetch();
    const T* block = static_cast<const T*>(rotation.current());
    if constexpr (std::is_same_v<T, A>) {
      use(static_cast<int>(owner), block, block + ring.k_elements[owner]);
    } else {
      const DeviceArray<A> wide(ring.elements[owner]);
      widen(block, ring.elements[owner], wide.data());
      use(static_cast<int>(owner), wide.data(), wide.data() + ring.k_elements[owner]);
    }
    if (step + 1 < size) rotation.advance();
    advance();
  }
}

/// dk and dv of all blocks: the local one, or accumulators that travel with the blocks and come home.
template <typename A>
class BlockGradients {
 public:
  BlockGradients(const BlockRing& ring) : ring_(ring) {
    if (ring.comm) {
      travelling_.emplace(ring.comm, ring.elements, dtype_of<A>);
    } else {
      local_ = DeviceArray<A>(ring.elements[0]);
      local_.zero();
    }
  }
  A* dk() { return travelling_ ? static_cast<A*>(travelling_->current()) : local_.data(); }
  A* dv(int owner) { return dk() + ring_.k_elements[static_cast<std::size_t>(owner)]; }
  void advance() {
    if (travelling_) travelling_->advance();
  }
  /// The local block's gradients [dk | dv], once all accumulators are home.
  DeviceArray<A> take() {
    if (!travelling_) return local_;
    const int rank = ring_.comm->rank();
    const DeviceArray<A> own(ring_.elements[static_cast<std::size_t>(rank)]);
    copy_bytes(own.data(), MemorySpace::device, travelling_->current(), MemorySpace::device, own.bytes());
    return own;
  }

 private:
  const BlockRing& ring_;
  std::optional<RingAccumulator> travelling_;
  DeviceArray<A> local_;
};

}  // namespace tessera::attention_detail
