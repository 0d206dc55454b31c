#pragma once

// Helpers of tests that compare an operator on shard tensors with the same operator on one process.
// Everything random comes from generators that all ranks seed alike, so that ranks agree on cases and values
// without talking.

#include <random>
#include <string>
#include <vector>

#include "parallel/layout.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera::testing {

using Random = std::mt19937_64;

/// Uniform integer in [lo, hi].
Index pick(Random& random, Index lo, Index hi);
/// Uniform values in [-1, 1).
std::vector<double> random_values(Random& random, Index count);

/// 0, 1, ...: every dimension of the shape.
std::vector<int> all_dims(const Shape& shape);

/// Meshes over all ranks with one to `most_axes` axes, named "d0", "d1", ...; made once.
const std::vector<Mesh>& meshes(int most_axes = 3);

enum class Cuts { even, uneven, empty };  ///< `empty`: uneven, with one part empty where there are several
Partition random_cuts(Random& random, Index extent, int parts, Cuts cuts);

/// A layout of `shape` on `mesh` whose axes shard distinct ones of `dims`, or else are Replicate; an axis is
/// left Replicate with probability 1 in 8.
Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape, std::vector<int> dims, Cuts cuts);

/// The tensor with these global values: plain, or this rank's part of `layout`; each rank of a Partial axis
/// holds them.
Tensor tensor_of(const std::vector<double>& values, const Shape& shape, DType type = DType::f64,
                 const Layout& layout = {});
/// The same, but the ranks of Partial axes hold addends that differ from each other and reduce to the values
/// in whatever order.
Tensor addends_of(const std::vector<double>& values, const Shape& shape, DType type, const Layout& layout);
/// The global values of a plain or shard tensor, on every rank.
std::vector<double> values_of(const Tensor& t);

/// What is wrong unless max|got - want| <= atol + rtol * max|want|; empty if nothing.
std::string difference(const std::vector<double>& got, const std::vector<double>& want, double rtol,
                       double atol);
/// Expects max|got - want| <= atol + rtol * max|want|.
void expect_close(const std::vector<double>& got, const std::vector<double>& want, double rtol, double atol,
                  const std::string& what);

}  // namespace tessera::testing
