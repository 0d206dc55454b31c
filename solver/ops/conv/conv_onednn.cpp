#include <dnnl.hpp>

#include "parallel/memory.hpp"
#include "parallel/recent_cache.hpp"
#include "solver/ops/conv/conv_backend.hpp"
#include "solver/ops/onednn/onednn.hpp"

namespace tessera::conv_onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

enum class Pass { forward, data, weights };

struct Key {
  ConvProblem problem;
  Pass pass = Pass::forward;
  bool bias = false;
  bool operator==(const Key&) const = default;
};

/// A primitive, the reorder of its weights between PyTorch's layout and the one it prefers, and its memory
/// descriptors. Arguments are set per call.
struct Compiled {
  memory::desc src, dst, plain_weights, own_weights, scratchpad;
  dnnl::primitive primitive, reorder;
};

/// (batch, channels, *grid) in oneDNN's order of names, channels last in memory.
memory::desc activations(const ConvProblem& p, Index channels, const Shape& grid) {
  memory::dims sizes{p.batch, channels};
  sizes.insert(sizes.end(), grid.begin(), grid.end());
  constexpr Tag tags[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  return {sizes, onednn::data_type(p.type), tags[p.axes() - 1]};
}

memory::desc weights(const ConvProblem& p, DType type, bool plain) {
  memory::dims sizes;
  if (p.groups > 1) sizes.push_back(p.groups);
  sizes.push_back(p.out_channels / p.groups);
  sizes.push_back(p.in_channels / p.groups);
  sizes.insert(sizes.end(), p.kernel.begin(), p.kernel.end());
  constexpr Tag tags[] = {Tag::oiw, Tag::oihw, Tag::oidhw}, grouped[] = {Tag::goiw, Tag::goihw, Tag::goidhw};
  const Tag tag = p.groups > 1 ? grouped[p.axes() - 1] : tags[p.axes() - 1];
  return {sizes, onednn::data_type(type), plain ? tag : Tag::any};
}

memory::desc bias_of(const ConvProblem& p, DType type) {
  return {{p.out_channels}, onednn::data_type(type), Tag::x};
}

template <typename Descriptor, typename... Leading>
Descriptor describe_pass(const ConvProblem& p, Leading&&... leading) {
  memory::dims dilates = onednn::dims(p.dilation);
  for (auto& d : dilates) --d;  // oneDNN counts the gaps
  return Descriptor(std::forward<Leading>(leading)..., onednn::dims(p.stride), dilates,
                    onednn::dims(p.pad_lo), onednn::dims(p.pad_hi));
}

Compiled compile(const ConvProblem& p, Pass pass, bool bias) {
  Compiled c;
  c.src = activations(p, p.in_channels, p.in);
  c.dst = activations(p, p.out_channels, p.out);
  const DType type = pass == Pass::weights ? p.weight_gradient_type : p.type;
  c.plain_weights = weights(p, type, true);
  const memory::desc any = weights(p, p.type, false);
  const memory::desc bias_desc = bias ? bias_of(p, type) : memory::desc();
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
  auto& engine = onednn::engine();

  using Forward = dnnl::convolution_forward;
  const Forward::primitive_desc forward(
      describe_pass<Forward::desc>(p, dnnl::prop_kind::forward_training, algorithm, c.src, any,
                                   bias ? bias_of(p, p.type) : bias_desc, c.dst),
      engine);
  if (pass == Pass::forward) {
    c.own_weights = forward.weights_desc();
    c.primitive = Forward(forward);
  } else if (pass == Pass::data) {
    using Data = dnnl::convolution_backward_data;
    const Data::primitive_desc data(describe_pass<Data::desc>(p, algorithm, c.src, any, c.dst), engine,
                                    forward);
    c.own_weights = data.weights_desc();
    c.primitive = Data(data);
  } else {
    using Weights = dnnl::convolution_backward_weights;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const Weights::primitive_desc back(
        describe_pass<Weights::desc>(p, algorithm, c.src, weights(p, type, false), bias_desc, c.dst),
        attributes, engine, forward);
    c.own_weights = back.diff_weights_desc();
    c.scratchpad = back.scratchpad_desc();
    c.primitive = Weights(back);
  }
  if (c.own_weights != c.plain_weights) {
    const auto& from = pass == Pass::weights ? c.own_weights : c.plain_weights;
    const auto& to = pass == Pass::weights ? c.plain_weights : c.own_weights;
    c.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
  }
  return c;
}

/// The compiled primitive of a problem: creating one takes milliseconds.
Compiled compiled(const ConvProblem& problem, Pass pass, bool bias) {
  static RecentCache<Key, Compiled> cache(512);
  return cache.get({problem, pass, bias}, [&] { return compile(problem, pass, bias); });
}

memory at(const memory::desc& desc, const void* data) {
  return {desc, onednn::engine(), const_cast<void*>(data)};
}

/// Weights in the order that the primitive wants; `keep` owns the copy.
memory reordered(const Compiled& c, const void* weights, MemoryBlock& keep) {
  if (!c.reorder) return at(c.own_weights, weights);
  keep = MemoryBlock(MemorySpace::device, c.own_weights.get_size());
  memory own = at(c.own_weights, keep.data());
  c.reorder.execute(onednn::stream(), {{DNNL_ARG_FROM, at(c.plain_weights, weights)}, {DNNL_ARG_TO, own}});
  return own;
}

/// True where oneDNN 2.6's weight gradient may be wrong, or write out of bounds: windows along the depth that
/// are longer than the input, or more than the first of which starts before it, their stride not being 1.
bool needs_front_planes(const ConvProblem& p) {
  if (p.axes() != 3 || p.pad_lo[0] <= 0) return false;
  return p.dilation[0] * (p.kernel[0] - 1) >= p.in[0] || (p.stride[0] > 1 && p.pad_lo[0] > p.stride[0]);
}

/// The same input with its front padding spelled out as planes of zeros; changes `p` accordingly.
MemoryBlock with_front_planes(ConvProblem& p, const void* src) {
  const std::size_t plane = static_cast<std::size_t>(p.in[1] * p.in[2] * p.in_channels) * size_of(p.type);
  const std::size_t own = plane * static_cast<std::size_t>(p.in[0]);
  const std::size_t front = plane * static_cast<std::size_t>(p.pad_lo[0]);
  const MemoryBlock padded(MemorySpace::device, static_cast<std::size_t>(p.batch) * (front + own));
  for (Index b = 0; b < p.batch; ++b) {
    char* to = static_cast<char*>(padded.data()) + static_cast<std::size_t>(b) * (front + own);
    const char* from = static_cast<const char*>(src) + static_cast<std::size_t>(b) * own;
    zero_bytes(to, MemorySpace::device, front);
    copy_bytes(to + front, MemorySpace::device, from, MemorySpace::device, own);
  }
  p.in[0] += p.pad_lo[0];
  p.pad_lo[0] = 0;
  return padded;
}

}  // namespace

bool supports(const ConvProblem& p) {
  if (!onednn::supports(p.type) || p.src_count() == 0 || p.dst_count() == 0) return false;
  if (p.type == DType::bf16 && !onednn::multiplies_bf16_faster()) return false;
  for (int a = 0; a < p.axes(); ++a) {
    if (p.pad_lo[a] < 0 || p.pad_hi[a] + p.stride[a] <= 0) return false;
  }
  return true;
}

bool supports_weights(const ConvProblem& p) {
  if (!supports(p)) return false;
  // oneDNN 2.6's bf16 weight gradient is wrong for some dilated windows and for some that overhang.
  for (int a = 0; a < p.axes() && p.type == DType::bf16; ++a) {
    const bool overhangs = p.pad_lo[a] > 0 || p.pad_hi[a] > 0;
    const bool usual = p.kernel[a] <= p.in[a] && (p.stride[a] == 1 || p.axes() < 3);
    if (p.dilation[a] > 1 || (overhangs && !usual)) return false;
  }
  return true;
}

void forward(const ConvProblem& problem, const void* src, const void* weights, const void* bias, void* dst) {
  const Compiled c = compiled(problem, Pass::forward, bias != nullptr);
  MemoryBlock keep;
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, at(c.src, src)},
                                            {DNNL_ARG_WEIGHTS, reordered(c, weights, keep)},
                                            {DNNL_ARG_DST, at(c.dst, dst)}};
  if (bias) arguments.emplace(DNNL_ARG_BIAS, at(bias_of(problem, problem.type), bias));
  c.primitive.execute(onednn::stream(), arguments);
  onednn::stream().wait();
}

void backward_data(const ConvProblem& problem, const void* dst, const void* weights, void* src) {
  const Compiled c = compiled(problem, Pass::data, false);
  MemoryBlock keep;
  c.primitive.execute(onednn::stream(), {{DNNL_ARG_DIFF_DST, at(c.dst, dst)},
                                         {DNNL_ARG_WEIGHTS, reordered(c, weights, keep)},
                                         {DNNL_ARG_DIFF_SRC, at(c.src, src)}});
  onednn::stream().wait();
}

void backward_weights(const ConvProblem& problem, const void* src, const void* dst, void* weights,
                      void* bias) {
  if (needs_front_planes(problem)) {
    ConvProblem padded = problem;
    const MemoryBlock planes = with_front_planes(padded, src);
    return backward_weights(padded, planes.data(), dst, weights, bias);
  }
  const Compiled c = compiled(problem, Pass::weights, bias != nullptr);
  MemoryBlock keep;
  if (c.reorder) keep = MemoryBlock(MemorySpace::device, c.own_weights.get_size());
  const memory own = at(c.own_weights, c.reorder ? keep.data() : weights);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, at(c.src, src)}, {DNNL_ARG_DIFF_DST, at(c.dst, dst)}, {DNNL_ARG_DIFF_WEIGHTS, own}};
  // oneDNN 2.6 multiplies parts of its scratchpad that it never wrote by zero, which fails if they hold NaN.
  const MemoryBlock scratchpad(MemorySpace::device, c.scratchpad.get_size());
  zero_bytes(scratchpad.data(), MemorySpace::device, scratchpad.bytes());
  arguments.emplace(DNNL_ARG_SCRATCHPAD, at(c.scratchpad, scratchpad.data()));
  if (bias) arguments.emplace(DNNL_ARG_DIFF_BIAS, at(bias_of(problem, problem.weight_gradient_type), bias));
  c.primitive.execute(onednn::stream(), arguments);
  if (c.reorder) {
    c.reorder.execute(onednn::stream(), {{DNNL_ARG_FROM, own}, {DNNL_ARG_TO, at(c.plain_weights, weights)}});
  }
  onednn::stream().wait();
}

}  // namespace tessera::conv_onednn
