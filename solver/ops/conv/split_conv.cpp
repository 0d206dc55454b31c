#include "solver/ops/conv/split_conv.hpp"

#include "parallel/recent_cache.hpp"

namespace tessera {
namespace {

const void* raw_or_null(const Tensor& t) {
  return t ? t.raw() : nullptr;
}

char* at(const Tensor& t, Index element) {
  return static_cast<char*>(t.raw()) + element * static_cast<Index>(size_of(t.dtype()));
}

/// Uninitialised gradient of a weight, to hold this rank's addend.
Tensor contribution(const Layout& like, const Tensor& weight) {
  return contribution_storage(weight, contribution_layout(like, weight.shape()), weight.dtype());
}

Index tap_elements(const SplitConv::Key& key) {
  return key.shape.back() / key.groups * key.out_channels;
}

/// The local plan from a box to one inside it.
ExchangePlan plan_within(const Box& whole, const Box& part) {
  NeedMap need;
  for (int d = 0; d < whole.size(); ++d)
    need.push_back(map_affine({0, part[d].size()}, part[d].lo - whole[d].lo, 1));
  return {whole.shape(), need};
}

}  // namespace

std::shared_ptr<const SplitConv> SplitConv::of(const Tensor& x, const Window& window, Index out_channels,
                                               Index groups, DType weight_type) {
  static RecentCache<Key, std::shared_ptr<const SplitConv>> cache(256);
  const Key key{x.shape(), x.layout(), window,      out_channels,
                groups,    x.dtype(),  weight_type, SplittingScope::current()};
  return cache.get(key, [&] { return std::make_shared<const SplitConv>(key); });
}

SplitConv::SplitConv(const Key& key)
    : key_(key),
      output_shape_(window_output_shape(key.shape, key.window, key.out_channels)),
      output_layout_(window_output_layout(key.layout, key.window, key.out_channels)),
      parts_(parts_of(key.layout ? key.layout.mesh().rank() : 0)),
      plan_(key.layout ? ExchangePlan(key.layout, [this](int rank) { return needs_of(rank); })
                       : ExchangePlan(key.shape, needs_of(0))),
      moves_(!plan_.is_local() || parts_.copied() > 0) {
  Index begin = 0;
  for (const WindowPart& part : parts_.parts) {
    const bool is_own = parts_.own_first && pieces_.empty();
    pieces_.push_back(piece_of(part, begin));
    begin += is_own ? 0 : part.inputs.volume();
  }
}

Box SplitConv::outputs_of(int rank) const {
  return output_layout_ ? output_layout_.box(rank) : Box::whole(output_shape_);
}

WindowParts SplitConv::parts_of(int rank) const {
  const Box own = key_.layout ? key_.layout.box(rank) : Box::whole(key_.shape);
  return window_parts(key_.shape, key_.window, own, outputs_of(rank), tap_elements(key_));
}

std::vector<NeedMap> SplitConv::needs_of(int rank) const {
  const WindowParts split = parts_of(rank);
  std::vector<NeedMap> needs;
  for (std::size_t i = split.first_copied(); i < split.parts.size(); ++i) {
    const Box& box = split.parts[i].inputs;
    if (box.is_empty()) continue;
    NeedMap need;
    for (int d = 0; d < box.size(); ++d) {
      const bool on_grid = d > 0 && d + 1 < box.size();
      const Boundary boundary = on_grid ? key_.window[d - 1].boundary : Boundary::zero;
      need.push_back(map_with_boundary(box[d], key_.shape[d], boundary));
    }
    needs.push_back(need);
  }
  return needs;
}

SplitConv::Piece SplitConv::piece_of(const WindowPart& part, Index begin) const {
  // (outputs, inputs of a group, *kernel) of the convolution that runs, forward or, transposed, backward
  const Index inputs = is_transposed() ? key_.out_channels : key_.shape.back(),
              outputs = is_transposed() ? key_.shape.back() : key_.out_channels;
  Box weight{{0, outputs}, {0, inputs / key_.groups}}, taps = weight;
  for (int a = 0; a < key_.window.size(); ++a) {
    weight.push_back({0, key_.window[a].kernel});
    taps.push_back(part.taps[a]);
  }
  return {problem_of(part), begin, plan_within(parts_.parts.front().outputs, part.outputs), taps == weight,
          plan_within(weight, taps)};
}

/// The convolution that reads the part's inputs (or, transposed, that writes them backwards).
ConvProblem SplitConv::problem_of(const WindowPart& part) const {
  const Box &reads = is_transposed() ? part.outputs : part.inputs,
            &gives = is_transposed() ? part.inputs : part.outputs;
  ConvProblem p;
  p.type = key_.type;
  p.weight_gradient_type = key_.weight_type;
  p.batch = part.inputs[0].size();
  p.groups = key_.groups;
  p.in_channels = reads.back().size();
  p.out_channels = gives.back().size();
  for (int a = 0; a < key_.window.size(); ++a) {
    const WindowAxis& axis = part.window[a];
    p.in.push_back(reads[a + 1].size());
    p.out.push_back(gives[a + 1].size());
    p.kernel.push_back(axis.kernel);
    p.stride.push_back(axis.stride);
    p.dilation.push_back(axis.dilation);
    p.pad_lo.push_back(axis.local_pad_lo(part.outputs[a + 1], part.inputs[a + 1]));
    p.pad_hi.push_back(axis.local_pad_hi(part.outputs[a + 1], part.inputs[a + 1]));
  }
  return p;
}

const void* SplitConv::input(std::size_t piece, const Tensor& x, const Tensor& halo) const {
  return piece < parts_.first_copied() ? x.raw() : at(halo, pieces_[piece].begin);
}

/// The weights of a piece's taps.
Tensor SplitConv::taps_of(const Piece& piece, const Tensor& kernel) {
  if (piece.all_taps) return kernel;
  const Tensor taps = Tensor::empty(piece.taps.destination_shape(), kernel.dtype());
  piece.taps.forward(kernel.raw(), taps.raw(), kernel.dtype());
  return taps;
}

void SplitConv::apply(const Piece& piece, const void* in, const Tensor& kernel, const Tensor& bias,
                      void* out) const {
  const Tensor taps = taps_of(piece, kernel);
  if (is_transposed()) {
    conv_backward_data(piece.problem, in, taps.raw(), raw_or_null(bias), out);
  } else {
    conv_forward(piece.problem, in, taps.raw(), raw_or_null(bias), out);
  }
}

void SplitConv::apply_adjoint(const Piece& piece, const void* out, const Tensor& kernel, void* in) const {
  const Tensor taps = taps_of(piece, kernel);
  if (is_transposed()) {
    conv_forward(piece.problem, out, taps.raw(), nullptr, in);
  } else {
    conv_backward_data(piece.problem, out, taps.raw(), nullptr, in);
  }
}

SplitConv::Result SplitConv::forward(const Tensor& x, const Tensor& kernel, const Tensor& bias) const {
  const DType type = x.dtype();
  Result result{Tensor::empty(output_layout_, output_shape_, type), {}};
  ExchangePlan::Motion motion;
  if (moves_ || !parts_.own_first) {
    const Shape elements{parts_.copied()};
    result.halo = plan_.covers_destination() ? Tensor::empty(elements, type) : Tensor::zeros(elements, type);
    motion = plan_.start(x.raw(), result.halo.raw(), type);
  }
  if (!parts_.own_first) motion.finish();
  apply(pieces_[0], input(0, x, result.halo), kernel, bias, result.y.raw());
  motion.finish();
  for (std::size_t i = 1; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const Tensor addends = Tensor::empty(piece.within.destination_shape(), type);
    apply(piece, input(i, x, result.halo), kernel, {}, addends.raw());
    piece.within.adjoint(addends.raw(), result.y.raw(), type);
  }
  return result;
}

/// The cotangents of each piece's outputs.
std::vector<Tensor> SplitConv::cut(const Tensor& gy) const {
  std::vector<Tensor> cotangents{gy};
  for (std::size_t i = 1; i < pieces_.size(); ++i) {
    cotangents.push_back(Tensor::empty(pieces_[i].within.destination_shape(), gy.dtype()));
    pieces_[i].within.forward(gy.raw(), cotangents.back().raw(), gy.dtype());
  }
  return cotangents;
}

/// gw = the sum over the pieces; gb, unless null, from the first, which has all outputs.
void SplitConv::add_weight_gradients(const std::vector<Tensor>& cotangents, const Tensor& x,
                                     const Tensor& halo, const Tensor& gw, void* gb) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const Tensor taps = i == 0 ? gw : Tensor::empty(piece.taps.destination_shape(), gw.dtype());
    const void *in = input(i, x, halo), *out = cotangents[i].raw();
    conv_backward_weights(piece.problem, is_transposed() ? out : in, is_transposed() ? in : out, taps.raw(),
                          i == 0 ? gb : nullptr);
    if (i > 0) piece.taps.adjoint(taps.raw(), gw.raw(), gw.dtype());
  }
}

Gradients SplitConv::backward(const Tensor& gy, const Tensor& x, const Tensor& halo, const Tensor& kernel,
                              const Wanted& wanted) const {
  const DType type = gy.dtype();
  const std::vector<Tensor> cotangents = wanted.x || wanted.weight ? cut(gy) : std::vector<Tensor>();
  Tensor gx, halo_gradient, gw, gb;
  ExchangePlan::Motion motion;
  if (wanted.x) {
    const Layout layout = key_.layout ? key_.layout.reduced() : Layout();
    gx = Tensor::empty(layout, key_.shape, type);
    halo_gradient = Tensor::empty(Shape{parts_.copied()}, type);
    for (std::size_t i = parts_.first_copied(); i < pieces_.size(); ++i)
      apply_adjoint(pieces_[i], cotangents[i].raw(), kernel, at(halo_gradient, pieces_[i].begin));
    if (moves_) motion = plan_.start_adjoint(halo_gradient.raw(), gx.raw(), type);
    if (parts_.own_first) {
      apply_adjoint(pieces_[0], gy.raw(), kernel, gx.raw());
    } else {
      gx.zero();
    }
    motion.poll();
  }
  if (wanted.bias) gb = contribution(gy.layout(), wanted.bias);
  const bool bias_with_weight = wanted.weight && !is_transposed();
  if (wanted.weight) {
    gw = contribution(gy.layout(), wanted.weight);
    add_weight_gradients(cotangents, x, halo, gw, bias_with_weight && wanted.bias ? gb.raw() : nullptr);
  }
  if (wanted.bias && !bias_with_weight)
    sum_rows(type, gy.local_count() / key_.out_channels, key_.out_channels, gy.raw(), gb.dtype(), gb.raw());
  motion.finish();
  return {gx, gw, gb};
}

}  // namespace tessera
