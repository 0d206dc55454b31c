#pragma once

#include <functional>
#include <vector>

#include "parallel/box.hpp"
#include "solver/ops/device_array.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/tensor.hpp"

// Internal to attention: one process, local queries against one block of keys and values, in tiles that stay
// in cache.
namespace tessera::attention_detail {

/// Queries and keys whose scores are in memory at once.
inline constexpr Index kQueryTile = 128;
inline constexpr Index kKeyTile = 512;

/// Called between tiles, so that messages under way move along.
using Progress = std::function<void()>;

/// Tokens of a block: their global flattened indices, in local order, on host and device.
struct Positions {
  std::vector<Index> host;
  DeviceArray<Index> device;
  Index size() const { return static_cast<Index>(host.size()); }
};
/// Of a box of (B, *tokens, heads, d) within a tensor of `shape`.
Positions positions_of(const Shape& shape, const Box& box);

/// mask(b, h, i, j) for global indices; strides are 0 where the mask broadcasts.
struct MaskView {
  DType type = DType::u8;  ///< u8: 0 hides; f32 or f64: added
  const void* data = nullptr;
  Index batch = 0, head = 0, row = 0, column = 0;  ///< strides
  Index first_row = 0;                             ///< query of the first row stored
};

/// What stays the same over all key blocks. A (f32 or f64) is the type of arithmetic.
struct Problem {
  Index batch = 0, heads = 0, d = 0, dv = 0;
  Index first_batch = 0, first_head = 0;  ///< global indices of the local ones
  double scale = 1;
  bool causal = false;
  MaskView mask;
  Positions queries;
};

// Operands and results are (batch, tokens, heads, depth) in T. Accumulators are in A = Compute<T> and keep
// the tokens of a head together, (batch, heads, tokens, depth): products of dense matrices are faster.

/// Running state of the local queries (batch, heads, queries), and the unnormalised output.
template <typename A>
struct Running {
  DeviceArray<A> maximum, sum, out;
};
template <typename A>
Running<A> start_running(const Problem& problem);

/// Adds the keys of a block.
template <typename T>
void attend(const Problem& problem, const T* q, const Positions& keys, const T* k, const T* v,
            const Running<Compute<T>>& state, const Progress& progress);

/// y = out / sum; returns the log-sum-exp of each query (0 where it saw no key, whose output is 0).
template <typename T>
DeviceArray<Compute<T>> finish_running(const Problem& problem, const Running<Compute<T>>& state, T* y);

/// sum over dv of out * gout, as (batch, heads, queries).
template <typename T>
DeviceArray<Compute<T>> output_products(const Problem& problem, const T* out, const T* gout);

template <typename T>
struct BackwardInputs {
  const T* q = nullptr;
  const T* gout = nullptr;
  const Compute<T>* lse = nullptr;       ///< global log-sum-exp (batch, heads, queries)
  const Compute<T>* products = nullptr;  ///< from output_products, of the global output
};
/// Adds the contributions of a key block to the accumulators dq, dk and dv.
template <typename T>
void attend_backward(const Problem& problem, const BackwardInputs<T>& in, const Positions& keys, const T* k,
                     const T* v, Compute<T>* dq, Compute<T>* dk, Compute<T>* dv, const Progress& progress);

}  // namespace tessera::attention_detail
