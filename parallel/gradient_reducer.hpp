#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "parallel/communicator.hpp"

namespace tessera {

struct GradientReducerOptions {
  std::size_t bucket_bytes = std::size_t{25} << 20;
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
};

/// Averages gradients over ddp and sums them over domain: with plain parameters both are one all-reduce over
/// the ranks of `comm` (the whole mesh), scaled by 1 / ddp_size. Gradients live in flat buckets, one element
/// type each, filled in reverse registration order; a bucket is sent when all of its gradients are ready and
/// all earlier buckets have been sent, so the order is the same on every rank.
class GradientReducer {
 public:
  struct Parameter {
    std::string name;
    Index elements = 0;
    DType type = DType::f32;
  };

  /// Collective: compares names, sizes and types over the ranks first and throws, naming the parameter, where
  /// they differ.
  GradientReducer(CommPtr comm, int ddp_size, std::vector<Parameter> parameters,
                  GradientReducerOptions options = {});

  /// Device memory of parameter i's gradient inside its bucket; the owner accumulates there.
  void* gradient(int i);
  /// Starts a new round with what the gradients hold.
  void start();
  /// Sets all gradients to zero and starts a new round.
  void zero();
  /// Marks parameter i's gradient complete; starts the reduction of every bucket that has become due. Twice
  /// in one round is an error that names the parameter.
  void mark_ready(int i);
  /// Marks what is still missing as ready (its gradient is what the bucket holds), waits, and leaves the
  /// reduced values in place.
  void finish();

  /// Number of buckets, for tests.
  int buckets() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera
