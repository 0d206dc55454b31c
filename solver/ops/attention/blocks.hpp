#pragma once

#include <algorithm>
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

/// A tensor (B, *tokens, heads, depth) from an accumulator (batch, heads, tokens, depth).
template <typename T>
Tensor by_token(const Compute<T>* from, const Layout& layout, const Shape& shape) {
  const Tensor result = Tensor::empty(layout, shape, dtype_of<T>);
  const Shape& local = result.local_shape();
  const Index heads = local[local.size() - 2], depth = local.back();
  Index tokens = 1;
  for (int d = 1; d + 2 < local.size(); ++d) tokens *= local[d];
  T* to = result.data<T>();
  for_each(
      "attention_by_token", local[0] * tokens * heads, KOKKOS_LAMBDA(Index r) {
        const Index b = r / (tokens * heads), i = r / heads % tokens, h = r % heads;
        const Compute<T>* row = from + ((b * heads + h) * tokens + i) * depth;
        for (Index c = 0; c < depth; ++c) store(to[r * depth + c], row[c]);
      });
  return result;
}

template <typename T>
DeviceArray<T> packed(const Tensor& k, const Tensor& v) {
  DeviceArray<T> block(k.local_count() + v.local_count());
  copy_bytes(block.data(), MemorySpace::device, k.raw(), MemorySpace::device, k.bytes());
  copy_bytes(block.data() + k.local_count(), MemorySpace::device, v.raw(), MemorySpace::device, v.bytes());
  return block;
}

/// Calls use(owner, k, v, progress) for every block, the local one first, while the next one travels; `use`
/// calls progress() now and then.
template <typename T, typename Use>
void for_each_block(const BlockRing& ring, const Tensor& k, const Tensor& v, const Use& use) {
  if (!ring.comm) return use(0, k.data<T>(), v.data<T>(), [] {});
  const DeviceArray<T> own = packed<T>(k, v);
  RingRotation rotation(ring.comm, ring.elements, dtype_of<T>);
  rotation.start(own.data());
  const int size = ring.comm->size();
  for (int step = 0; step < size; ++step) {
    const auto owner = static_cast<std::size_t>(rotation.owner());
    if (step + 1 < size) rotation.prefetch();
    const T* block = static_cast<const T*>(rotation.current());
    const auto progress = [&] { rotation.progress(); };
    use(static_cast<int>(owner), block, block + ring.k_elements[owner], progress);
    if (step + 1 < size) rotation.advance();
  }
}

/// dk and dv of all blocks. Those of a block are computed while its accumulator is on the way here, then
/// added to it.
template <typename A>
class BlockGradients {
 public:
  explicit BlockGradients(const BlockRing& ring)
      : ring_(ring), addend_(*std::max_element(ring.elements.begin(), ring.elements.end())) {
    if (ring.comm) travelling_.emplace(ring.comm, ring.elements, dtype_of<A>);
  }

  /// Calls add(dk, dv, progress), which adds a block's gradients to zeros.
  template <typename Add>
  void block(int owner, const Add& add) {
    addend_.zero();
    A* dk = addend_.data();
    add(dk, dk + ring_.k_elements[static_cast<std::size_t>(owner)], [this] {
      if (travelling_) travelling_->progress();
    });
    if (!travelling_) return;
    if (steps_++ > 0) travelling_->arrive();
    A* sum = static_cast<A*>(travelling_->current());
    for_each(
        "attention_add_block", ring_.elements[static_cast<std::size_t>(owner)],
        KOKKOS_LAMBDA(Index i) { sum[i] += dk[i]; });
    travelling_->leave();
  }

  /// The local block's gradients [dk | dv], once all blocks have been met.
  DeviceArray<A> take() {
    if (!travelling_) return addend_;
    travelling_->arrive();
    const auto rank = static_cast<std::size_t>(ring_.comm->rank());
    const std::size_t bytes = static_cast<std::size_t>(ring_.elements[rank]) * sizeof(A);
    copy_bytes(addend_.data(), MemorySpace::device, travelling_->current(), MemorySpace::device, bytes);
    return addend_;
  }

 private:
  const BlockRing& ring_;
  DeviceArray<A> addend_;
  std::optional<RingAccumulator> travelling_;
  int steps_ = 0;
};

}  // namespace tessera::attention_detail
