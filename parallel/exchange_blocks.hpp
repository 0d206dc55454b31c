#pragma once

#include <vector>

#include "parallel/exchange_plan.hpp"
#include "parallel/strided_block.hpp"

// What an ExchangePlan moves, as blocks between buffers; for itself and for those who count its cost.
namespace tessera {

/// The boxes that a rank needs, one behind another in its destination buffer.
using Needs = std::vector<NeedMap>;

Shape shape_of(const NeedMap& need);
bool reads_nothing(const NeedMap& need);
/// True if everything that is read lies in `box`.
bool reads_only(const NeedMap& need, const Box& box);
bool fills_destination(const NeedMap& need);
/// Throws unless the segments stay inside the destination range and the source axis.
void check_need(const NeedMap& need, const Shape& source);

/// The blocks that move from the source buffer of box `box` to the destination buffer, in an order that
/// sender and receiver compute alike: need by need, of each the cartesian product of the clips of the axes,
/// the last axis fastest.
std::vector<StridedBlock> moving_blocks(const Needs& needs, const Box& box);

/// One message: between this rank's source (outgoing) or destination (incoming) buffer and a dense buffer.
struct Message {
  int peer = 0;
  Index elements = 0;
  std::vector<StridedBlock> blocks;  // from the strided buffer to the dense one if outgoing, else the reverse

  /// One run of elements, which can be sent or received where it lies.
  bool is_dense() const { return blocks.size() == 1 && tessera::is_dense(blocks.front()); }
};

/// Replaces the destination side (outgoing) or source side (incoming) of the blocks by consecutive places of
/// a message.
Message make_message(int peer, const std::vector<StridedBlock>& moving, bool outgoing);

}  // namespace tessera
