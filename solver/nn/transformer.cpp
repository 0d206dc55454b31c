#include "solver/nn/transformer.hpp"

#include "solver/ops/attention/attention.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/neighborhood_attention/neighborhood_attention.hpp"
#include "solver/ops/reduce/reduce.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace {

constexpr double kPositionDeviation = 0.02;

std::shared_ptr<Conv> patch_conv(const ModelConfig& c) {
  ConvOptions options;
  options.stride = c.patch;
  return std::make_shared<Conv>(c.in_channels, c.dim, c.patch, options, c.type);
}

Shape with_front_and_back(Index front, const Shape& middle, std::initializer_list<Index> back) {
  Shape shape{front};
  for (Index extent : middle) shape.push_back(extent);
  for (Index extent : back) shape.push_back(extent);
  return shape;
}

Shape token_shape(const Tensor& x) {
  return {x.shape().begin() + 1, x.shape().end() - 1};
}

}  // namespace

SelfAttention::SelfAttention(const ModelConfig& c, Index kernel_size)
    : heads_(c.heads),
      kernel_size_(kernel_size),
      qkv_(module("qkv", std::make_shared<Linear>(c.dim, 3 * c.dim, c.type))),
      proj_(module("proj", std::make_shared<Linear>(c.dim, c.dim, c.type))) {}

Tensor SelfAttention::operator()(const Tensor& x) const {
  const Index width = x.dim(-1);
  const Shape tokens = token_shape(x);
  // (B, *tokens, 3, heads, head size)
  const Tensor qkv = reshape((*qkv_)(x), with_front_and_back(x.dim(0), tokens, {3, heads_, width / heads_}));
  const int which = tokens.size() + 1;
  const std::vector<Tensor> parts = unbind(qkv, which);
  const Tensor &q = parts[0], &k = parts[1], &v = parts[2];
  const Tensor y = kernel_size_ > 0 ? neighborhood_attention(q, k, v, {.kernel_size = {kernel_size_}})
                                    : attention(q, k, v);
  return (*proj_)(reshape(y, x.shape()));
}

TransformerBlock::TransformerBlock(const ModelConfig& c, Index kernel_size)
    : norm1_(module("norm1", std::make_shared<LayerNorm>(c.dim, c.type))),
      norm2_(module("norm2", std::make_shared<LayerNorm>(c.dim, c.type))),
      attn_(module("attn", std::make_shared<SelfAttention>(c, kernel_size))),
      mlp_(module("mlp", std::make_shared<Mlp>(
                             c.dim, static_cast<Index>(c.mlp_ratio * static_cast<double>(c.dim)), c.type))) {}

Tensor TransformerBlock::operator()(const Tensor& x) const {
  const Tensor attended = add(x, (*attn_)((*norm1_)(x)));
  return add(attended, (*mlp_)((*norm2_)(attended)));
}

void Transformer::add_blocks(Index kernel_size) {
  for (Index i = 0; i < config().depth; ++i) {
    blocks_.push_back(
        module("stages." + std::to_string(i), std::make_shared<TransformerBlock>(config(), kernel_size)));
  }
}

void Transformer::add_head() {
  const ModelConfig& c = config();
  const Index out = c.head == Head::field ? count(c.patch) * c.out_channels : c.num_classes;
  head_ = module("head", std::make_shared<Linear>(c.dim, out, c.type));
}

Tensor Transformer::forward(const Tensor& x) const {
  Tensor y = embed(pad_to_patches(x));  // (B, *tokens, dim)
  for (const auto& block : blocks_) {
    y = run_block([block](const Tensor& t) { return (*block)(t); }, y);
  }
  if (config().head == Head::field) return crop_to_grid(unpatch((*head_)(y)), x);
  std::vector<int> tokens;
  for (int d = 1; d + 1 < y.ndim(); ++d) tokens.push_back(d);
  return (*head_)(reduce_partial(mean(y, tokens)));
}

Tensor Transformer::unpatch(const Tensor& y) const {
  const ModelConfig& c = config();
  const Shape tokens = token_shape(y);
  const int n = tokens.size();
  Shape split = with_front_and_back(y.dim(0), tokens, {});
  for (Index p : c.patch) split.push_back(p);
  split.push_back(c.out_channels);
  std::vector<int> order{0};  // (B, t1, p1, t2, p2, ..., out)
  Shape whole{y.dim(0)};
  for (int d = 0; d < n; ++d) {
    order.push_back(1 + d);
    order.push_back(1 + n + d);
    whole.push_back(tokens[d] * c.patch[d]);
  }
  order.push_back(1 + 2 * n);
  whole.push_back(c.out_channels);
  return reshape(permute(reshape(y, split), order), whole);
}

class Vit::PatchEmbed : public Module {
 public:
  explicit PatchEmbed(const ModelConfig& c)
      : conv_(module("conv", patch_conv(c))),
        norm_(module("norm", std::make_shared<LayerNorm>(c.dim, c.type))) {}
  Tensor operator()(const Tensor& x) const { return relu((*norm_)((*conv_)(x))); }

 private:
  std::shared_ptr<Conv> conv_;
  std::shared_ptr<LayerNorm> norm_;
};

Vit::Vit(const ModelConfig& c) : Transformer(c) {
  pos_embed_ =
      parameter("pos_embed", {1, count(c.tokens()), c.dim}, Init::normal(kPositionDeviation), c.type);
  patch_embed_ = module("patch_embed", std::make_shared<PatchEmbed>(c));
  add_blocks(0);
  add_head();
}

Tensor Vit::embed(const Tensor& x) const {
  const ModelConfig& c = config();
  const Tensor patches = (*patch_embed_)(x);
  const Tensor positions = cast(pos_embed_, patches.dtype());
  return add(patches, reshape(positions, with_front_and_back(1, c.tokens(), {c.dim})));
}

Natten::Natten(const ModelConfig& c) : Transformer(c) {
  pos_embed_ = parameter("pos_embed", with_front_and_back(1, c.tokens(), {c.dim}),
                         Init::normal(kPositionDeviation), c.type);
  patch_embed_ = module("patch_embed", patch_conv(c));
  add_blocks(c.kernel_size);
  add_head();
}

Tensor Natten::embed(const Tensor& x) const {
  const Tensor patches = (*patch_embed_)(x);
  return add(patches, cast(pos_embed_, patches.dtype()));
}

}  // namespace tessera
