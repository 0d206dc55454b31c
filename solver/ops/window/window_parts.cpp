#include "solver/ops/window/window_parts.hpp"

namespace tessera {
namespace {

/// What handling one more part costs beside its weights, in elements of the copy that it saves: some thirty
/// microseconds of small kernels and library calls, at 0.7 ns for an element copied, cleared and added up.
constexpr Index kPartElements = 40000;

/// Box of everything that the outputs read.
Box slab_of(const Shape& shape, const Window& window, const Box& own, const Box& outputs) {
  Box slab = own;
  for (int a = 0; a < window.size(); ++a) slab[a + 1] = window[a].slab_of(outputs[a + 1], shape[a + 1]);
  return slab;
}

WindowPart with_all_taps(const Window& window, const Box& inputs, const Box& outputs) {
  WindowPart part{inputs, outputs, {}, window};
  for (const WindowAxis& axis : window) part.taps.push_back({0, axis.kernel});
  return part;
}

/// The part of some inputs.
WindowPart part_of(const Window& window, const Box& inputs, const Box& outputs) {
  WindowPart part{inputs, outputs, {}, {}};
  for (int a = 0; a < window.size(); ++a) {
    part.outputs[a + 1] = window[a].outputs_of(inputs[a + 1], outputs[a + 1]);
    part.taps.push_back(window[a].taps_between(inputs[a + 1], part.outputs[a + 1]));
    part.window.push_back(window[a].of_taps(part.taps[a]));
  }
  return part;
}

/// True if a library can compute the outputs from the inputs alone: windows begin at or before the first
/// input, each reads some input, and less than a stride of them is left over at the end.
bool fits(const WindowAxis& axis, Range inputs, Range outputs) {
  const Index lo = axis.local_pad_lo(outputs, inputs), hi = axis.local_pad_hi(outputs, inputs);
  return lo >= 0 && lo <= axis.reach() && hi > -axis.stride && hi <= axis.reach();
}

bool fits(const WindowPart& part) {
  if (part.outputs.is_empty()) return true;  // nothing is computed
  for (int a = 0; a < part.window.size(); ++a) {
    if (!fits(part.window[a], part.inputs[a + 1], part.outputs[a + 1])) return false;
  }
  return true;
}

/// True if the own box reaches all outputs, and is thicker than a window where it is not all that is read.
bool own_serves(const Window& window, const Box& slab, const Box& own, const Box& outputs) {
  if (outputs.is_empty()) return true;
  if (own.is_empty() || slab.is_empty()) return false;
  for (int a = 0; a < window.size(); ++a) {
    const Range have = own[a + 1];
    if (have == slab[a + 1]) continue;
    if (have.size() <= window[a].reach() || !fits(window[a], have, outputs[a + 1])) return false;
  }
  return true;
}

/// What the slab has around the own box, at most two boxes along each axis.
std::vector<WindowPart> halo_parts(const Window& window, const Box& slab, const Box& own,
                                   const Box& outputs) {
  std::vector<WindowPart> parts;
  Box rest = slab;
  for (int a = 0; a < window.size(); ++a) {
    const Range whole = rest[a + 1], mine = own[a + 1];
    for (const Range side : {intersect(whole, {whole.lo, mine.lo}), intersect(whole, {mine.hi, whole.hi})}) {
      rest[a + 1] = side;
      if (!rest.is_empty()) parts.push_back(part_of(window, rest, outputs));
    }
    rest[a + 1] = intersect(whole, mine);
  }
  return parts;
}

/// True if parts beside the own box should be handled for themselves.
bool is_worth_it(const std::vector<WindowPart>& parts, const Box& own, const Box& outputs,
                 Index tap_elements) {
  Index again = 0;  // outputs that are computed once more
  Index cost = 0;
  for (const WindowPart& part : parts) {
    if (!fits(part)) return false;
    again += part.outputs.volume();
    cost += kPartElements + part.taps.volume() * tap_elements;
  }
  const Splitting splitting = SplittingScope::current();
  if (parts.empty() || splitting == Splitting::always) return true;
  return splitting == Splitting::automatic && cost <= own.volume() && 2 * again <= outputs.volume();
}

}  // namespace

Index WindowParts::copied() const {
  Index elements = 0;
  for (std::size_t i = first_copied(); i < parts.size(); ++i) elements += parts[i].inputs.volume();
  return elements;
}

WindowParts window_parts(const Shape& shape, const Window& window, const Box& own, const Box& outputs,
                         Index tap_elements) {
  if (outputs.is_empty()) return {true, {with_all_taps(window, own, outputs)}};
  const Box slab = slab_of(shape, window, own, outputs);
  if (own_serves(window, slab, own, outputs)) {
    WindowParts split{true, halo_parts(window, slab, own, outputs)};
    if (is_worth_it(split.parts, own, outputs, tap_elements)) {
      split.parts.insert(split.parts.begin(), with_all_taps(window, own, outputs));
      return split;
    }
  }
  return {false, {with_all_taps(window, slab, outputs)}};
}

}  // namespace tessera
