#pragma once

#include <vector>

#include "solver/ops/registry/mode_scope.hpp"
#include "solver/ops/window/window.hpp"

namespace tessera {

/// Some inputs of a window, the outputs of a rank that read any of them - boxes of (batch, *grid, channels) -
/// and the taps with which they do, a Range per grid axis.
struct WindowPart {
  Box inputs, outputs, taps;
  Window window;  ///< of these taps alone
};

/// What a rank's outputs read, for operators that are linear: a part's inputs alone, with zeros around them,
/// give addends of its outputs, and the sum over the parts is the result. The first part reaches all outputs.
///
///     two axes cut, this rank in the middle     +---------------+
///     `above`, `below`: as wide as what the     |     above     |     own: the rank's box, where it lies
///     outputs read, corners included            +---+-------+---+     others: what neighbours own, or what a
///     `left`, `right`: as high as the own box   | l |  own  | r |     boundary makes of this rank's elements
///                                               +---+-------+---+
///                                               |     below     |
///                                               +---------------+
///
/// The own box is read without a copy and before anything has arrived. Where that costs more than it saves,
/// or the own box does not reach all outputs, there is one part: a copy of everything that is read.
struct WindowParts {
  bool own_first = false;  ///< the first part is the own box
  std::vector<WindowPart> parts;

  /// Index of the first part that is not read where it lies.
  std::size_t first_copied() const { return own_first ? 1 : 0; }
  /// Elements of the parts from first_copied() on.
  Index copied() const;
};

/// When to divide.
enum class Splitting : std::uint8_t {
  automatic,  ///< where it costs less than the copy, by counted elements
  always,     ///< wherever the own box reaches all outputs and is thicker than a window
  never,
};

/// While it lives, operators of this thread divide so. Every rank has to choose alike.
using SplittingScope = ModeScope<Splitting>;

/// `shape`: of the whole input. `own`, `outputs`: this rank's boxes. `tap_elements`: weights of one tap,
/// which are handled once more for each tap of a further part.
WindowParts window_parts(const Shape& shape, const Window& window, const Box& own, const Box& outputs,
                         Index tap_elements);

}  // namespace tessera
