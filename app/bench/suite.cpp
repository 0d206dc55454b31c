#include "app/bench/suite.hpp"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "app/bench/models.hpp"
#include "io/agree.hpp"

namespace tessera::bench {
namespace {

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

class Suite {
 public:
  Suite(Runner& runner, bool quick) : runner_(runner), quick_(quick) {}

  SuiteResult run() {
    steps();
    mixed_precision();
    scaling();
    attention();
    activations();
    messages_and_files();
    return std::move(result_);
  }

 private:
  Case case_of(const std::string& kind, Index size, int ranks = 1, const std::string& model = "") const {
    Case c;
    c.kind = &find_kind(kind);
    c.size = quick_ ? quick_size(*c.kind, model) : size;
    c.ranks = ranks;
    c.model = model;
    c.precision = c.kind->precisions.empty() ? DType::f32 : c.kind->precisions.front();
    return c;
  }

  /// Two patches for each of two ranks; a few tokens, KiB, cells or MiB.
  static Index quick_size(const Kind& kind, const std::string& model) {
    if (!kind.models) return 16;
    const ModelPreset& preset = find_model(model);
    return 4 * preset.config.patch[0];
  }

  Row measured(const Case& c) {
    const Row row = runner_.run(c);
    result_.rows.push_back(row);
    run_on_root(*runner_.world(), [&] { spdlog::debug("{}", table_text({row})); });
    return row;
  }

  bool has(int ranks) const { return runner_.world()->size() >= ranks; }

  void add(std::string what, std::string mark, std::string measured, bool met) {
    result_.figures.push_back({std::move(what), std::move(mark), std::move(measured),
                               quick_ ? ""
                               : met  ? "met"
                                      : "missed"});
  }
  void leave_out(std::string what, std::string mark) {
    result_.figures.push_back({std::move(what), std::move(mark)});
  }

  /// A share of the limit that is measured in the same run.
  void share(const std::string& what, const Case& c, double least) {
    if (!has(c.ranks)) return leave_out(what, ">= " + percent(least));
    const Row row = measured(c);
    add(what, ">= " + percent(least),
        fmt::format("{} of {} ({}, spread {:.1f} %)", percent(row.fraction()), row.limit_name,
                    rate_text(row.rate(), c.kind->unit), 100 * row.timing.spread()),
        row.fraction() >= least);
  }

  /// The same step with its products in bf16.
  void mixed_precision() {
    Case c = case_of("train-step", 256, 1, "vit");
    const Row f32 = measured(c);
    c.precision = DType::bf16;
    const Row bf16 = measured(c);
    const double factor = bf16.rate() / f32.rate(), library = bf16.limit / f32.limit;
    add("the same ViT step in bf16", ">= 1.70 x f32",
        fmt::format("{:.2f} x (the library's bf16 products: {:.2f} x its f32 ones)", factor, library),
        factor >= 1.7);
  }

  void steps() {
    share("ViT 384 wide, grid 256^2, f32 training step", case_of("train-step", 256, 1, "vit"), 0.8);
    share("ConvNet 96 wide, grid 512^2, training step", case_of("train-step", 512, 1, "convnet"), 0.8);
    share("ConvNet 3-D 32 wide, grid 96^3, training step", case_of("train-step", 96, 1, "convnet-3d"), 0.8);
  }

  /// Two ranks on one sample, or on one each.
  void speed_up(const std::string& what, const std::string& model, Index size, bool ddp, double least) {
    const std::string mark = ddp ? ">= " + percent(least) : fmt::format(">= {:.2f} x", least);
    if (!has(2)) return leave_out(what, mark);
    const Row one = measured(case_of("train-step", size, 1, model));
    Case c = case_of("train-step", size, 2, model);
    c.ddp = ddp;
    const Row two = measured(c);
    const SpeedUp gain = bench::speed_up(two, {one, two});
    const double spread = 100 * std::max(one.timing.spread(), two.timing.spread());
    const std::string figure = ddp ? percent(gain.efficiency) : fmt::format("{:.2f} x", gain.factor);
    add(what, mark, fmt::format("{} (spread {:.1f} %)", figure, spread),
        (ddp ? gain.efficiency : gain.factor) >= least);
  }

  void scaling() {
    speed_up("domain=2 against 1, ViT, 4096 tokens", "vit", 512, false, 1.85);
    speed_up("domain=2 against 1, ViT, 1024 tokens", "vit", 256, false, 1.6);
    speed_up("domain=2 against 1, ViT, 64 tokens", "vit", 64, false, 1);
    speed_up("domain=2 against 1, ViT, 16 tokens", "vit", 32, false, 1);
    speed_up("domain=2 against 1, ConvNet 512^2", "convnet", 512, false, 1.9);
    speed_up("domain=2 against 1, ConvNet 32^2", "convnet", 32, false, 1);
    speed_up("ddp=2 against one rank, ViT, same work each", "vit", 256, true, 0.95);
  }

  void attention() {
    share("attention, 8 heads x 64, 16384 tokens, forward and backward", case_of("attention", 16384), 0.75);
    const double half = static_cast<double>(measured(case_of("attention", 8192)).timing.extra_memory);
    const double whole = static_cast<double>(measured(case_of("attention", 16384)).timing.extra_memory);
    add("its extra memory, 16384 tokens against 8192", "<= 2.1 x", fmt::format("{:.2f} x", whole / half),
        whole <= 2.1 * half);
  }

  /// Counted, as `tessera plan` does: what tests hold against the allocator.
  void activations() {
    for (const char* name : {"vit", "convnet"}) {
      const ModelPreset& preset = find_model(name);
      const ModelConfig config = preset.at(preset.size, DType::f32);
      const auto kept = [&](int parts) {
        Index most = 0;
        const GridCuts cuts = cut_grid(config, parts, false);
        for (int rank = 0; rank < parts; ++rank)
          most = std::max(most, sample_cost(config, cuts, rank).kept_bytes);
        return static_cast<double>(most);
      };
      const double ratio = kept(4) / kept(1);
      add(fmt::format("activations at domain=4, {}", name), "<= 0.288 of domain=1",
          fmt::format("{:.3f} (counted)", ratio), ratio <= 1.15 / 4);
    }
  }

  void messages_and_files() {
    const std::string halo = "halo exchange of 1 MiB faces";
    if (has(2)) {
      const Row row = measured(case_of("halo", 1024, 2));
      add(halo, "<= 1.30 x bare messages",
          fmt::format("{:.2f} x (spread {:.1f} %)", 1 / row.fraction(), 100 * row.timing.spread()),
          1 / row.fraction() <= 1.3);
    } else {
      leave_out(halo, "<= 1.30 x bare messages");
    }
    share("shallow water, 1024^2 cells", case_of("stencil", 1024), 0.6);
    share("HDF5, 1 GiB written and flushed", case_of("io-write", 1024, runner_.world()->size()), 0.7);
    share("HDF5, 1 GiB read, not cached", case_of("io-read", 1024, runner_.world()->size()), 0.7);
  }

  Runner& runner_;
  bool quick_;
  SuiteResult result_;
};

}  // namespace

SuiteResult run_suite(Runner& runner, bool quick) {
  return Suite(runner, quick).run();
}

}  // namespace tessera::bench
