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
///       ... use block, calling ring.progress() now and then ...
///       ring.advance();                              // wait; current() is the next block
///     }
class RingRotation {
 public:
  RingRotation(CommPtr comm, std::vector<Index> elements, DType type);

  void start(const void* own_block);
  const void* current() const;
  int owner() const;
  void prefetch();
  /// Moves what is under way along; MPI may do so only while it is called.
  void progress();
  void advance();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Accumulators that travel with the blocks (dK, dV): at step s this rank adds into the accumulator of rank
/// (rank - s) mod size, and after size() steps each accumulator is back at its owner. What is to be added may
/// be computed while the accumulator is still on its way:
///
///     for (int s = 0; s < comm.size(); ++s) {
///       ... compute the addend of rank owner() ...
///       if (s > 0) sums.arrive();                    // wait; current() is the accumulator of that rank
///       ... add ...
///       sums.leave();                                // start sending it on; owner() is the next rank
///     }
///     sums.arrive();                                 // this rank's own, complete
class RingAccumulator {
 public:
  RingAccumulator(CommPtr comm, std::vector<Index> elements, DType type);

  /// The accumulator that is here, zero at step 0.
  void* current();
  int owner() const;
  void leave();
  void progress();
  void arrive();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera
