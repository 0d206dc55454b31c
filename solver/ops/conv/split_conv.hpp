#pragma once

#include <memory>

#include "parallel/exchange_plan.hpp"
#include "solver/ops/conv/conv_backend.hpp"
#include "solver/ops/window/window_parts.hpp"
#include "solver/tensor/autograd.hpp"

// Internal to solver/ops/conv: a convolution of an input under any layout, forward and backward.
namespace tessera {

/// A convolution, or a transposed one if its window is. It is linear, so what reads the own box is computed
/// while halos travel, and what they add afterwards (see WindowParts):
///
///     forward     halos start                          x  -> halo
///                 y = own box * weights + bias
///                 halos have arrived
///                 y += halo parts * weights            at the outputs that read them
///     backward    gradients of the halo parts          from gy at the outputs that read them
///                 they start for their owners
///                 gx = gradient of the own box
///                 gw = that of the own box's part, then those of the halo parts
///                 gradients of others' halos have arrived and are added to gx
///
/// The backward pass needs x itself and the halos, no other copy. Where the window is not split, the one part
/// is a copy of all that is read: it is waited for, kept, and its gradient goes back as a whole.
class SplitConv {
 public:
  /// Made from x's layout alone and kept for the next call. `groups`, `window`: of the operator.
  /// `weight_type` is that of the weight's gradient.
  static std::shared_ptr<const SplitConv> of(const Tensor& x, const Window& window, Index out_channels,
                                             Index groups, DType weight_type);

  struct Result {
    Tensor y;
    Tensor halo;  ///< what of x the parts read that are copies
  };
  /// True if the own box is read where it lies; otherwise the halo has all that is read.
  bool reads_own() const { return parts_.own_first; }
  /// `kernel`, `bias`: in x's type.
  Result forward(const Tensor& x, const Tensor& kernel, const Tensor& bias) const;

  /// Whose gradients are asked for.
  struct Wanted {
    bool x = false;
    Tensor weight, bias;  ///< undefined: not of these
  };
  /// Gradients of x, weight and bias. `x` is not looked at unless the weight's is wanted and reads_own(),
  /// `halo` not unless the weight's is wanted.
  Gradients backward(const Tensor& gy, const Tensor& x, const Tensor& halo, const Tensor& kernel,
                     const Wanted& wanted) const;

  struct Key {
    Shape shape;
    Layout layout;
    Window window;
    Index out_channels = 0, groups = 1;
    DType type = DType::f32, weight_type = DType::f32;
    Splitting splitting = Splitting::automatic;
    bool operator==(const Key&) const = default;
  };
  explicit SplitConv(const Key& key);

 private:
  /// One part as the library sees it.
  struct Piece {
    ConvProblem problem;
    Index begin = 0;      ///< first element of the halo, unless it is the own box
    ExchangePlan within;  ///< local: from all outputs of the rank to its own
    bool all_taps = true;
    ExchangePlan taps;  ///< local: from the whole weight to its own taps
  };

  bool is_transposed() const { return key_.window[0].transposed; }
  Box outputs_of(int rank) const;
  WindowParts parts_of(int rank) const;
  std::vector<NeedMap> needs_of(int rank) const;
  Piece piece_of(const WindowPart& part, Index begin) const;
  ConvProblem problem_of(const WindowPart& part) const;
  const void* input(std::size_t piece, const Tensor& x, const Tensor& halo) const;
  static Tensor taps_of(const Piece& piece, const Tensor& kernel);
  void apply(const Piece& piece, const void* in, const Tensor& kernel, const Tensor& bias, void* out) const;
  void apply_adjoint(const Piece& piece, const void* out, const Tensor& kernel, void* in) const;
  std::vector<Tensor> cut(const Tensor& gy) const;
  void add_weight_gradients(const std::vector<Tensor>& cotangents, const Tensor& x, const Tensor& halo,
                            const Tensor& gw, void* gb) const;

  Key key_;
  Shape output_shape_;
  Layout output_layout_;
  WindowParts parts_;
  ExchangePlan plan_;  ///< x -> halo
  bool moves_ = false;
  std::vector<Piece> pieces_;
};

}  // namespace tessera
