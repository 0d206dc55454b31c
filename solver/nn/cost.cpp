#include "solver/nn/cost.hpp"

#include "solver/nn/cost_layers.hpp"

namespace tessera {
namespace {

using namespace cost;

Window window_of(const Shape& kernel, const Shape& stride, Index padding_of_axis(Index kernel, Index stride),
                 const InlineVector<Boundary>& boundary, bool transposed = false) {
  Window window;
  for (int a = 0; a < kernel.size(); ++a) {
    const Index padding = padding_of_axis(kernel[a], stride[a]);
    const Boundary edge = boundary.empty() ? Boundary::zero : boundary[boundary.size() == 1 ? 0 : a];
    window.push_back({kernel[a], stride[a], 1, padding, padding, edge, transposed});
  }
  return window;
}

Index no_padding(Index, Index) {
  return 0;
}
Index centred(Index kernel, Index stride) {
  return (kernel - stride) / 2;
}

Field pad_to_patches(Tape& tape, const ModelConfig& c, Field x) {
  const Shape tokens = c.tokens();
  for (int a = 0; a < tokens.size(); ++a) {
    const Index more = tokens[a] * c.patch[a] - c.grid[a];
    if (more > 0) x = pad_high(tape, x, a, more, c.padding.empty() ? Boundary::replicate : c.padding[a]);
  }
  return x;
}

Field crop_to_grid(Tape& tape, const ModelConfig& c, const Field& y, const GridCuts& like) {
  const Field cropped = extents_of(y.cuts) == c.grid ? y : crop_high(tape, y, c.grid);
  return redistribute(tape, cropped, like);
}

Field residual_block(Tape& tape, const ModelConfig& c, const Field& x) {
  const Shape three = Shape::filled(c.grid.size(), 3), one = Shape::filled(c.grid.size(), 1);
  const auto conv = [&](const Field& f) {
    return convolution(tape, f, window_of(three, one, centred, c.boundary), c.dim);
  };
  const Field inner = group_norm_gelu(tape, conv(x), c.norm_groups, nullptr);
  return group_norm_gelu(tape, conv(inner), c.norm_groups, &x);
}

Field self_attention(Tape& tape, const ModelConfig& c, const Field& x) {
  const Field qkv = linear(tape, x, 3 * c.dim);
  const std::vector<Field> parts = unbind(tape, qkv, 3);
  const Field &q = parts[0], &k = parts[1], &v = parts[2];
  const Field y = c.architecture == Architecture::natten
                      ? neighborhood_attention(tape, q, k, v, c.heads, c.kernel_size)
                      : attention(tape, q, k, v, c.heads);
  return linear(tape, y, c.dim);
}

Index hidden_width(const ModelConfig& c) {
  return static_cast<Index>(c.mlp_ratio * static_cast<double>(c.dim));
}

Field transformer_block(Tape& tape, const ModelConfig& c, const Field& x) {
  const Field attended = add(tape, x, self_attention(tape, c, layer_norm(tape, x)));
  const auto mlp = [&](const Field& f) {
    return linear(tape, unary(tape, linear(tape, f, hidden_width(c))), c.dim);
  };
  return add(tape, attended, mlp(layer_norm(tape, attended)));
}

Field embed(Tape& tape, const ModelConfig& c, const Field& x) {
  const auto patches = [&] {
    return convolution(tape, x, window_of(c.patch, c.patch, no_padding, {}), c.dim);
  };
  if (c.architecture == Architecture::natten) return add_parameter(tape, patches());
  return add_parameter(tape, unary(tape, layer_norm(tape, patches())));
}

Field unpatch(Tape& tape, const ModelConfig& c, const Field& y) {
  GridCuts cuts;
  for (std::size_t a = 0; a < y.cuts.size(); ++a) {
    const Index p = c.patch[static_cast<int>(a)];
    cuts.push_back(y.cuts[a].transposed(p, y.cuts[a].extent() * p));
  }
  return permute(tape, y, cuts, c.out_channels);
}

Field stem(Tape& tape, const ModelConfig& c, const Field& x) {
  Shape kernel = c.patch;
  if (c.stem_kernel > 0) kernel = Shape::filled(c.grid.size(), c.stem_kernel);
  return convolution(tape, x, window_of(kernel, c.patch, centred, c.boundary), c.dim);
}

Field model(Tape& tape, const ModelConfig& c, const Field& x_in) {
  const Field x = c.bf16_products ? cast(tape, x_in, DType::bf16) : x_in;
  const bool convnet = c.architecture == Architecture::convnet;
  const auto block = [&c, convnet](Tape& t, const Field& f) {
    return convnet ? residual_block(t, c, f) : transformer_block(t, c, f);
  };
  Field y = convnet ? stem(tape, c, pad_to_patches(tape, c, x)) : embed(tape, c, pad_to_patches(tape, c, x));
  for (Index i = 0; i < c.depth; ++i) y = c.recompute ? checkpoint(tape, y, block) : block(tape, y);
  if (convnet) {
    const Window head = window_of(c.patch, c.patch, no_padding, {}, true);
    y = crop_to_grid(tape, c, convolution(tape, y, head, c.out_channels), x.cuts);
  } else {
    y = crop_to_grid(tape, c, unpatch(tape, c, linear(tape, y, count(c.patch) * c.out_channels)), x.cuts);
  }
  return cast(tape, y, c.type);
}

}  // namespace

int ranks_of(const GridCuts& cuts) {
  int ranks = 1;
  for (const Partition& p : cuts) ranks *= p.parts();
  return ranks;
}

InlineVector<int> parts_of(const GridCuts& cuts, int rank) {
  InlineVector<int> parts = InlineVector<int>::filled(static_cast<int>(cuts.size()), 0);
  for (std::size_t a = cuts.size(); a-- > 0;) {
    parts[static_cast<int>(a)] = rank % cuts[a].parts();
    rank /= cuts[a].parts();
  }
  return parts;
}

Box box_of(const GridCuts& cuts, int rank) {
  const InlineVector<int> parts = parts_of(cuts, rank);
  Box box;
  for (std::size_t a = 0; a < cuts.size(); ++a) box.push_back(cuts[a].range(parts[static_cast<int>(a)]));
  return box;
}

SampleCost sample_cost(const ModelConfig& config, const GridCuts& cuts, int rank, const CostTerms& terms) {
  config.validate();
  require(config.head == Head::field && extents_of(cuts) == config.grid, "cost",
          "found cuts of {} and {}, expected a field head and the grid {}", to_string(extents_of(cuts)),
          config.head == Head::field ? "a field head" : "another head", to_string(config.grid));
  Ledger ledger(ranks_of(cuts), parts_of(cuts, rank), config.type);
  Tape tape(ledger);
  {
    Field y = model(tape, config, {cuts, config.in_channels});
    const Field known{cuts, config.out_channels};
    if (terms.base) y = add(tape, y, known);
    if (terms.seasonal > 0) y = add(tape, y, weighted_terms(tape, cuts, config.out_channels, terms.seasonal));
    mean_of_all(tape, unary(tape, add(tape, y, known)));  // the loss
  }
  ledger.start_backward();
  tape.backward(nullptr);
  return ledger.total();
}

std::vector<Index> parameter_counts(const ModelConfig& c) {
  const bool convnet = c.architecture == Architecture::convnet, vit = c.architecture == Architecture::vit;
  const int axes = c.grid.size();
  std::vector<Index> counts;
  const auto layer = [&](Index weight, Index bias) {
    counts.push_back(weight);
    counts.push_back(bias);
  };
  if (!convnet) counts.push_back(count(c.tokens()) * c.dim);
  Shape kernel = c.patch;
  if (convnet && c.stem_kernel > 0) kernel = Shape::filled(axes, c.stem_kernel);
  layer(c.dim * c.in_channels * count(kernel), c.dim);
  if (vit) layer(c.dim, c.dim);
  for (Index i = 0; i < c.depth; ++i) {
    for (int n = 0; n < 2 && convnet; ++n) layer(c.dim * c.dim * count(Shape::filled(axes, 3)), c.dim);
    for (int n = 0; n < 2; ++n) layer(c.dim, c.dim);  // norms
    if (convnet) continue;
    layer(3 * c.dim * c.dim, 3 * c.dim);
    layer(c.dim * c.dim, c.dim);
    layer(hidden_width(c) * c.dim, hidden_width(c));
    layer(c.dim * hidden_width(c), c.dim);
  }
  const Index field = convnet ? c.out_channels : count(c.patch) * c.out_channels;
  if (c.head == Head::classification) layer(c.dim * c.num_classes, c.num_classes);
  if (c.head == Head::field) layer(c.dim * c.out_channels * count(c.patch), field);
  return counts;
}

Traffic gradient_traffic(std::span<const Index> counts, DType type, const GradientReducerOptions& options) {
  // Buckets as GradientReducer fills them: in reverse order, gradients aligned to 64 bytes.
  constexpr Index kAlignment = 64;
  Traffic traffic;
  Index bucket = 0;
  for (auto n = counts.rbegin(); n != counts.rend(); ++n) {
    const std::size_t limit = traffic.calls <= 1 ? options.first_bucket_bytes : options.bucket_bytes;
    if (traffic.calls == 0 || static_cast<std::size_t>(bucket) >= limit) {
      ++traffic.calls;
      bucket = 0;
    }
    const Index bytes = *n * static_cast<Index>(size_of(type));
    const Index padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    bucket += padded;
    traffic.bytes += padded;
  }
  return traffic;
}

}  // namespace tessera
