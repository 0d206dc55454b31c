#pragma once

#include <memory>
#include <span>
#include <vector>

#include "parallel/communicator.hpp"

namespace tessera {

/// Blocks of uneven length travel round the group: at step s this rank holds the block that rank (rank - s)
/// mod size owns. Double-buffered: the next block arrives while the present one is used. Used as
///
///     RingRotation ring(comm, elements, type);       // elements[r] of rank r's block; 0 is legal
///     ring.start(own_block);                         // device buffer with elements[rank] elements
///     for (int s = 0; s < comm.size(); ++s) {
///       const void* block = ring.current();          // owner: ring.owner()
///       ring.prefetch();                             // start sending it on and receiving the next (not in
///       the last step)
///       ... use block ...
///       ring.advance();                              // wait; current() is the next block
///     }
///
/// A carried accumulator (dK, dV) rides with `send_back`: a second rotation of writable blocks that is
/// advanced after use and returns to its owner after size() steps.
class RingRotation {
 public:
  RingRotation(CommPtr comm, std::vector<Index> elements, DType type);

  void start(const void* own_block);
  const void* current() const;
  int owner() const;
  void prefetch();
  void advance();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Accumulators that travel with the blocks: at step s this rank adds into the accumulator of rank (rank - s)
/// mod size, and after size() calls of advance() each accumulator is back at its owner.
class RingAccumulator {
 public:
  RingAccumulator(CommPtr comm, std::vector<Index> elements, DType type);

  /// The accumulator of `owner()`, zero at step 0.
  void* current();
  int owner() const;
  /// Sends the present accumulator on and receives the next one.
  void advance();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera
