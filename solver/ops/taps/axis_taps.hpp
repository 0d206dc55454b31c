#pragma once

#include <span>
#include <vector>

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// A sparse matrix along one axis: output o is the sum of weight * input over its taps. Pooling by averages,
/// interpolation and selection of indices are products of such matrices, one per axis.
class AxisTaps {
 public:
  explicit AxisTaps(Index inputs = 0) : inputs_(inputs) {}

  /// Adds a tap to the output that end_output() closes. `input` lies in [0, inputs).
  void add(Index input, double weight) {
    input_.push_back(input);
    weight_.push_back(weight);
  }
  void end_output() { first_.push_back(static_cast<Index>(input_.size())); }

  Index inputs() const { return inputs_; }
  Index outputs() const { return static_cast<Index>(first_.size()) - 1; }
  /// Taps of output o are [first[o], first[o + 1]) of inputs() and weights().
  std::span<const Index> first() const { return first_; }
  std::span<const Index> tap_inputs() const { return input_; }
  std::span<const double> weights() const { return weight_; }

  /// The matrix of the gradient: inputs and outputs change places, taps in rising order of the outputs.
  AxisTaps transposed() const;
  /// Inputs counted from `lo` on, of which there are `inputs`.
  AxisTaps shifted(Index lo, Index inputs) const;
  /// The smallest range that holds the inputs of all taps; empty at 0 where there are none.
  Range needed() const;

 private:
  Index inputs_;
  std::vector<Index> first_{0}, input_;
  std::vector<double> weight_;
};

/// Applies a matrix to dimension `dim` of the plain tensor x (f32, f64, bf16): extent inputs() becomes
/// outputs(). Sums in the compute type, in the order of the taps.
Tensor apply_taps(const Tensor& x, int dim, const AxisTaps& taps);
/// Applies taps[a] to dimension 1 + a, all of them.
Tensor apply_taps(const Tensor& x, std::span<const AxisTaps> taps);

}  // namespace tessera
