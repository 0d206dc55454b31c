#include "app/model_deck.hpp"

#include <span>

namespace tessera {
namespace {

using BoundaryName = std::pair<std::string_view, Boundary>;
constexpr BoundaryName kPaddings[] = {
    {"edge", Boundary::replicate}, {"reflect", Boundary::reflect}, {"periodic", Boundary::periodic}};
constexpr BoundaryName kBoundaries[] = {{"zero", Boundary::zero},
                                        {"periodic", Boundary::periodic},
                                        {"reflect", Boundary::reflect},
                                        {"edge", Boundary::replicate}};

void describe_common(Section& s, Index patch, Index dim, Index depth) {
  s.integers("patch")
      .single_allowed()
      .length(1, 3)
      .range(1, 1 << 16)
      .defaults(std::vector<Index>{patch})
      .unit("cells")
      .help(
          "patch extent per grid axis; one number for all axes. Any grid works: it is widened to whole "
          "patches and cropped");
  s.integer("dim").range(1, 1 << 20).defaults(dim).help("width: channels of the hidden layers");
  s.integer("depth").range(0, 10000).defaults(depth).help("number of blocks");
  s.choice("precision", {"f32", "bf16"})
      .defaults("f32")
      .help(
          "type of activations and of the factors of products; bf16: half the memory of activations; sums, "
          "parameters, their gradients and the optimiser stay f32");
  s.list("padding", SchemaKey::item(KeyType::choice).choices({"edge", "reflect", "periodic"}))
      .single_allowed()
      .length(0, 3)
      .empty()
      .help(
          "per axis, how a grid is widened to whole patches; default: periodic where the data are, else "
          "edge");
}

void describe_transformer(Section& s) {
  describe_common(s, 8, 64, 4);
  s.integer("heads").min(1).defaults(Index{4}).help("attention heads; a divisor of dim");
  s.real("mlp_ratio").above(0).defaults(4.0).help("hidden width of the MLPs over dim");
}

/// Entry `axis` of a list that may be empty (the data's edges decide), have one entry for all axes, or one
/// each.
Boundary entry(const Deck& model, const char* key, int axis, int axes, Boundary otherwise,
               std::span<const BoundaryName> meanings) {
  const auto names = model.get<std::vector<std::string>>(key);
  if (names.empty()) return otherwise;
  if (names.size() != 1 && static_cast<int>(names.size()) != axes) {
    throw model.error(key, "found {} entries, expected 1 or {} (the grid's axes)", names.size(), axes);
  }
  const std::string& name = names[names.size() == 1 ? 0 : static_cast<std::size_t>(axis)];
  for (const auto& [candidate, value] : meanings) {
    if (candidate == name) return value;
  }
  throw model.error(key, "unknown entry '{}'", name);
}

}  // namespace

void describe_model(Section& s) {
  s.selector("type").defaults("convnet").help("architecture");
  s.variant(
      "convnet",
      [](Section& v) {
        describe_common(v, 4, 48, 4);
        v.integer("stem_kernel")
            .min(0)
            .defaults(Index{0})
            .unit("cells")
            .help("extent of the first kernel; 0: the patch");
        v.integer("norm_groups")
            .min(1)
            .defaults(Index{8})
            .help("groups of the group norms; a divisor of dim");
        v.list("boundary", SchemaKey::item(KeyType::choice).choices({"zero", "periodic", "reflect", "edge"}))
            .single_allowed()
            .length(0, 3)
            .empty()
            .help(
                "per axis, what convolutions read beyond the grid; default: periodic where the data are, "
                "else zero");
      },
      "residual convolutional network");
  s.variant("vit", describe_transformer, "vision transformer: attention between all patches");
  s.variant(
      "natten",
      [](Section& v) {
        describe_transformer(v);
        v.integer("kernel_size")
            .min(1)
            .defaults(Index{7})
            .unit("patches")
            .help("odd extent of the attention window");
      },
      "vision transformer with neighbourhood attention");
}

Shape patch_of(const Deck& model, int axes) {
  const auto patch = model.get<std::vector<Index>>("patch");
  if (patch.size() != 1 && static_cast<int>(patch.size()) != axes) {
    throw model.error("patch", "found {} entries, expected 1 or {} (the grid's axes)", patch.size(), axes);
  }
  Shape shape;
  for (int a = 0; a < axes; ++a) shape.push_back(patch[patch.size() == 1 ? 0 : static_cast<std::size_t>(a)]);
  return shape;
}

ModelConfig model_config(const Deck& model, const Shape& grid, const InlineVector<Boundary>& edges,
                         Index in_channels, Index out_channels) {
  ModelConfig c;
  c.architecture = model.choose<Architecture>(
      "type",
      {{"vit", Architecture::vit}, {"convnet", Architecture::convnet}, {"natten", Architecture::natten}});
  c.grid = grid;
  c.patch = patch_of(model, grid.size());
  c.in_channels = in_channels;
  c.out_channels = out_channels;
  c.dim = model.get<Index>("dim");
  c.depth = model.get<Index>("depth");
  c.bf16_products = model.get<std::string>("precision") == "bf16";
  const bool convnet = c.architecture == Architecture::convnet;
  for (int a = 0; a < grid.size(); ++a) {
    const bool periodic = edges[a] == Boundary::periodic;
    c.padding.push_back(entry(model, "padding", a, grid.size(),
                              periodic ? Boundary::periodic : Boundary::replicate, kPaddings));
    if (convnet) c.boundary.push_back(entry(model, "boundary", a, grid.size(), edges[a], kBoundaries));
  }
  if (convnet) {
    c.stem_kernel = model.get<Index>("stem_kernel");
    c.norm_groups = model.get<Index>("norm_groups");
  } else {
    c.heads = model.get<Index>("heads");
    c.mlp_ratio = model.get<double>("mlp_ratio");
  }
  if (c.architecture == Architecture::natten) c.kernel_size = model.get<Index>("kernel_size");
  try {
    c.validate();
  } catch (const Error& e) {
    throw model.error("type", "{}", e.what());
  }
  return c;
}

}  // namespace tessera
