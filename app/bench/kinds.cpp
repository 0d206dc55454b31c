#include "app/bench/kinds.hpp"

#include <algorithm>

#include "io/hint.hpp"

namespace tessera::bench {

std::span<const Kind> kinds() {
  constexpr DType f32 = DType::f32, f64 = DType::f64, bf16 = DType::bf16;
  static const Kind all[] = {
      {.name = "gemm",
       .summary = "linear layer, forward; the rows are cut over the ranks",
       .size = "rows, inputs and outputs",
       .unit = "flop/s",
       .sizes = {512, 2048},
       .precisions = {f32, bf16},
       .make = make_gemm},
      {.name = "conv",
       .summary = "2-D convolution, 64 channels, 3 x 3, forward and backward",
       .size = "grid cells per axis",
       .unit = "flop/s",
       .sizes = {128, 256},
       .precisions = {f32, bf16},
       .make = make_conv},
      {.name = "conv-3d",
       .summary = "3-D convolution, 32 channels, 3 x 3 x 3, forward and backward",
       .size = "grid cells per axis",
       .unit = "flop/s",
       .sizes = {32, 64},
       .precisions = {f32, bf16},
       .make = make_conv_3d},
      {.name = "attention",
       .summary = "8 heads x 64, forward and backward; the tokens are cut over the ranks",
       .size = "tokens",
       .unit = "flop/s",
       .sizes = {1024, 4096},
       .precisions = {f32, bf16},
       .make = make_attention},
      {.name = "halo",
       .summary = "one face to each neighbour, through an exchange plan",
       .size = "KiB of a face",
       .unit = "B/s",
       .sizes = {16, 1024},
       .precisions = {f32},
       .messages = true,
       .make = make_halo},
      {.name = "ring",
       .summary = "blocks travel once round all ranks",
       .size = "KiB of a block",
       .unit = "B/s",
       .sizes = {256, 4096},
       .precisions = {f32},
       .messages = true,
       .make = make_ring},
      {.name = "reduce",
       .summary = "gradients averaged over all ranks, in buckets",
       .size = "KiB of gradients",
       .unit = "B/s",
       .sizes = {1024, 32768},
       .precisions = {f32, bf16},
       .messages = true,
       .make = make_reduce},
      {.name = "stencil",
       .summary = "shallow-water time steps",
       .size = "grid cells per axis",
       .unit = "cell/s",
       .sizes = {256, 1024},
       .precisions = {f64, f32},
       .make = make_stencil},
      {.name = "io-write",
       .summary = "a parallel HDF5 file, written and flushed to the disk",
       .size = "MiB",
       .unit = "B/s",
       .sizes = {64},
       .precisions = {f32},
       .make = make_io_write},
      {.name = "io-read",
       .summary = "the same, read; out of the system's cache before, where the system complies",
       .size = "MiB",
       .unit = "B/s",
       .sizes = {64},
       .precisions = {f32},
       .make = make_io_read},
      {.name = "train-step",
       .summary = "an update of a model's weights: forward, backward, reduction, clipping, AdamW",
       .size = "grid cells per axis",
       .unit = "flop/s",
       .precisions = {f32, bf16},
       .models = true,
       .ddp = true,
       .make = make_train_step},
      {.name = "predict-step",
       .summary = "a forward pass of a model",
       .size = "grid cells per axis",
       .unit = "flop/s",
       .precisions = {f32, bf16},
       .models = true,
       .make = make_predict_step},
  };
  return all;
}

const Kind& find_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : " | ") + known;
  fail(ExitCode::usage, "bench", "unknown kind '{}': expected {}{}", name, list, nearest_hint(name, names));
}

Partition cut_points(Index extent, int parts, bool uneven, Index unit) {
  std::vector<double> weights;
  for (int p = 0; p < parts; ++p) weights.push_back(uneven && p % 2 == 1 ? 2 : uneven ? 3 : 1);
  return Partition::from_weights(extent, weights, unit);
}

Layout cut_over(const CommPtr& group, const Shape& shape, int dim, bool uneven, Index unit) {
  const MeshAxis axis{"domain", -1};
  return Layout(Mesh(group, {&axis, 1}), {Shard(dim)}, shape,
                {cut_points(shape[dim], group->size(), uneven, unit)});
}

}  // namespace tessera::bench
