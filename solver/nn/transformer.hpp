#pragma once

#include "solver/nn/layers.hpp"
#include "solver/nn/model.hpp"

namespace tessera {

/// Multi-head self-attention over tokens (B, *tokens, C): all tokens, or those of a window (`kernel_size` >
/// 0).
class SelfAttention : public Module {
 public:
  SelfAttention(const ModelConfig& config, Index kernel_size);
  Tensor operator()(const Tensor& x) const;

 private:
  Index heads_, kernel_size_;
  std::shared_ptr<Linear> qkv_, proj_;
};

/// x + attn(norm1(x)), then x + mlp(norm2(x)).
class TransformerBlock : public Module {
 public:
  TransformerBlock(const ModelConfig& config, Index kernel_size);
  Tensor operator()(const Tensor& x) const;

 private:
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<SelfAttention> attn_;
  std::shared_ptr<Mlp> mlp_;
};

/// Blocks and heads common to Vit and Natten.
class Transformer : public Model {
 public:
 protected:
  explicit Transformer(const ModelConfig& config) : Model(config) {}
  void add_blocks(Index kernel_size);
  void add_head();
  /// (B, *grid in whole patches, in) -> tokens (B, *tokens, dim), position embedding included.
  virtual Tensor embed(const Tensor& x) const = 0;

 private:
  Tensor forward(const Tensor& x) const override;
  /// (B, *tokens, patch^n * out), patch positions slowest, channel fastest -> (B, *grid, out).
  Tensor unpatch(const Tensor& y) const;

  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  std::shared_ptr<Linear> head_;
};

/// Vision transformer: relu(LayerNorm(conv(x))) tokens plus a learned position embedding (1, N, dim), global
/// attention.
class Vit : public Transformer {
 public:
  explicit Vit(const ModelConfig& config);

 protected:
  Tensor embed(const Tensor& x) const override;

 private:
  class PatchEmbed;
  std::shared_ptr<PatchEmbed> patch_embed_;
  Tensor pos_embed_;
};

/// Vision transformer with neighbourhood attention; position embedding (1, *tokens, dim).
class Natten : public Transformer {
 public:
  explicit Natten(const ModelConfig& config);

 protected:
  Tensor embed(const Tensor& x) const override;

 private:
  std::shared_ptr<Conv> patch_embed_;
  Tensor pos_embed_;
};

}  // namespace tessera
