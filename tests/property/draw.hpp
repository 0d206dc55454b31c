#pragma once

#include <string>
#include <vector>

#include "tests/support/operator_case.hpp"

// What the generators of tests/property draw from. Every rank draws the same.
namespace tessera::property {

using testing::OperatorCase;
using testing::Outputs;
using testing::Random;
using Inputs = std::span<const Tensor>;
using Values = std::vector<double>;

class Draw {
 public:
  Draw(Random& random, Mesh mesh) : random_(random), mesh_(std::move(mesh)) {}

  Random& random() { return random_; }
  /// The mesh that the operands of this case are laid out on.
  const Mesh& mesh() const { return mesh_; }

  /// Uniform integer in [lo, hi].
  Index in(Index lo, Index hi) { return testing::pick(random_, lo, hi); }
  int dim(int dims) { return static_cast<int>(in(0, dims - 1)); }
  /// A dimension counted from the start or from the end.
  int signed_dim(int dims) { return dim(dims) - (one_in(2) ? dims : 0); }
  bool one_in(Index n) { return in(1, n) == 1; }
  template <typename T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(in(0, static_cast<Index>(choices.size()) - 1))];
  }
  /// Extents of 1 to `most`; one in 24 shapes has an extent of 0 where `most_empty` allows it.
  Shape shape(int dims, Index most, bool may_be_empty = false);
  /// A list of one number per axis, or sometimes one for all, or none where the operator has a default.
  Shape per_axis(int axes, Index lo, Index hi);
  /// The prime factors of the extents of `shape`, multiplied up again at random, and extents of 1.
  Shape regrouped(const Shape& shape);
  /// Some of the dimensions, in any order, each counted from either end; at least `least`.
  std::vector<int> some_dims(int dims, int least = 0);

  /// Values in [-1, 1) that are exact in single precision.
  Values values(Index count);
  /// Values in [lo, hi), likewise.
  Values values(Index count, double lo, double hi);
  /// Values of [-1, 1) that differ from each other by at least 1 / count, in random order.
  Values distinct(Index count);
  /// Values of few levels, so that many are equal.
  Values levels(Index count);
  Values integers(Index count, Index lo, Index hi);

 private:
  Random& random_;
  Mesh mesh_;
};

/// One drawn use of an operator.
struct Sample : OperatorCase {
  /// Whether small steps of the operands stay clear of kinks.
  bool smooth = true;
  /// Whether what is wrong with an operand is wrong in the same way where all operands are plain.
  bool spoilable = true;
  /// Part of the error that this input is refused with; empty if it is legal.
  std::string refusal;
  /// Part of the error that some layouts of this input are refused with; empty if there are none.
  std::string layout_refusal;
  double tolerance = 1e-11;  ///< of f64 against f64
  double f32_tolerance = 1e-4;
  double difference_tolerance = 1e-7;

  /// Adds an operand that may be cut along every dimension, and be Partial.
  Operand& operand(std::string name, const Shape& shape, Values values);
  /// Adds one that layouts leave whole: plain or Replicate.
  Operand& whole(std::string name, const Shape& shape, Values values);
  /// Adds one without gradient, of a type of its own.
  Operand& constant(std::string name, const Shape& shape, Values values, DType type);
};

struct Generator {
  std::string op;  ///< as registered, or what several operators make
  std::function<Sample(Draw&)> draw;
  int weight = 1;  ///< how often it comes in a round
};
using Table = std::vector<Generator>;

void add_windowed(Table& table);
void add_padding(Table& table);
void add_attention(Table& table);
void add_elementwise(Table& table);
void add_reductions(Table& table);
void add_dense(Table& table);
void add_norms(Table& table);
void add_shape(Table& table);
void add_selection(Table& table);
void add_redistribution(Table& table);
void add_chains(Table& table);
/// All of them.
const Table& table();

std::string text_of(bool value);

}  // namespace tessera::property
