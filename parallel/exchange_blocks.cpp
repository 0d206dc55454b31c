#include "parallel/exchange_blocks.hpp"

#include <algorithm>

#include "parallel/division.hpp"

namespace tessera {
namespace {

/// The part of a segment whose sources lie in a box, in coordinates of the two buffers.
struct Clip {
  Index destination = 0;
  Index source = 0;
  Index count = 0;
  Index step = 1;
};

/// The k in [0, count) with from + k * step in `range`.
Range steps_inside(const AxisSegment& segment, Range range) {
  const auto [lo, count, from, step] = segment;
  if (range.empty()) return {0, 0};
  if (step == 0) return range.contains(from) ? Range{0, count} : Range{0, 0};
  const Index first = step > 0 ? range.lo : range.hi - 1;
  const Index last = step > 0 ? range.hi - 1 : range.lo;
  return intersect({ceil_div(first - from, step), floor_div(last - from, step) + 1}, {0, count});
}

std::vector<Clip> clip(const AxisMap& need, Range range) {
  std::vector<Clip> clips;
  for (const AxisSegment& s : need.segments) {
    const Range k = steps_inside(s, range);
    if (k.empty()) continue;
    clips.push_back({s.lo + k.lo - need.range.lo, s.from + k.lo * s.step - range.lo, k.size(), s.step});
  }
  return clips;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

}  // namespace

Shape shape_of(const NeedMap& need) {
  Shape shape;
  for (const AxisMap& axis : need) shape.push_back(axis.range.size());
  return shape;
}

bool reads_nothing(const NeedMap& need) {
  return std::any_of(need.begin(), need.end(), [](const AxisMap& axis) { return axis.segments.empty(); });
}

bool reads_only(const NeedMap& need, const Box& box) {
  for (int d = 0; d < need.size(); ++d) {
    for (const AxisSegment& s : need[d].segments) {
      if (steps_inside(s, box[d]).size() != s.count) return false;
    }
  }
  return true;
}

bool fills_destination(const NeedMap& need) {
  if (count(shape_of(need)) == 0) return true;
  return std::all_of(need.begin(), need.end(), [](const AxisMap& axis) {
    Index filled = 0;
    for (const AxisSegment& s : axis.segments) filled += s.count;
    return filled == axis.range.size();
  });
}

void check_need(const NeedMap& need, const Shape& source) {
  require(need.size() == source.size(), "ExchangePlan", "a need of {} dimensions for a source of shape {}",
          need.size(), to_string(source));
  for (int d = 0; d < need.size(); ++d) {
    for (const AxisSegment& s : need[d].segments) {
      require(s.lo >= need[d].range.lo && s.lo + s.count <= need[d].range.hi, "ExchangePlan",
              "dimension {}: segment [{}, {}) outside the destination range [{}, {})", d, s.lo,
              s.lo + s.count, need[d].range.lo, need[d].range.hi);
      require(steps_inside(s, {0, source[d]}).size() == s.count, "ExchangePlan",
              "dimension {}: {} indices from {} in steps of {} leave the source axis [0, {})", d, s.count,
              s.from, s.step, source[d]);
    }
  }
}

namespace {

/// Of one need, whose destination begins at element `begin` of the buffer.
void add_moving_blocks(const NeedMap& need, const Box& box, Index begin, std::vector<StridedBlock>& blocks) {
  std::vector<std::vector<Clip>> clips;
  Index products = 1;
  for (int d = 0; d < need.size(); ++d) {
    clips.push_back(clip(need[d], box[d]));
    products *= static_cast<Index>(clips.back().size());
  }
  const Shape from_strides = row_major_strides(box.shape());
  const Shape to_strides = row_major_strides(shape_of(need));
  for (Index number = 0; number < products; ++number) {
    StridedBlock block;
    block.to = begin;
    Index rest = number;
    Index choices = products;
    for (int d = 0; d < need.size(); ++d) {
      const std::vector<Clip>& axis = clips[static_cast<std::size_t>(d)];
      choices /= static_cast<Index>(axis.size());
      const Clip& c = axis[static_cast<std::size_t>(rest / choices)];
      rest %= choices;
      block.from += c.source * from_strides[d];
      block.to += c.destination * to_strides[d];
      block.push_back(c.count, c.step * from_strides[d], to_strides[d]);
    }
    blocks.push_back(block);
  }
}

}  // namespace

std::vector<StridedBlock> moving_blocks(const Needs& needs, const Box& box) {
  std::vector<StridedBlock> blocks;
  Index begin = 0;
  for (const NeedMap& need : needs) {
    add_moving_blocks(need, box, begin, blocks);
    begin += count(shape_of(need));
  }
  return blocks;
}

Message make_message(int peer, const std::vector<StridedBlock>& moving, bool outgoing) {
  Message message{peer, 0, {}};
  for (StridedBlock block : moving) {
    Index(&strides)[kMaxDims] = outgoing ? block.to_stride : block.from_stride;
    Index dense = 1;
    for (int d = block.dims - 1; d >= 0; --d) {
      strides[d] = dense;
      dense *= block.count[d];
    }
    (outgoing ? block.to : block.from) = message.elements;
    message.elements += dense;
    message.blocks.push_back(simplify(block));
  }
  return message;
}

}  // namespace tessera
