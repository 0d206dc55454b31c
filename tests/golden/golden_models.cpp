// Trains the models of a golden file as PyTorch did, on a mesh of ddp groups x domain ranks, and compares
// outputs, gradients, losses and the trained parameters.
#include <algorithm>
#include <cmath>
#include <regex>
#include <sstream>

#include <CLI/CLI.hpp>

#include "parallel/runtime.hpp"
#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/loss/loss.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "solver/train/data_parallel.hpp"
#include "tests/golden/command.hpp"
#include "tests/golden/model_case.hpp"
#include "tests/golden/partitions.hpp"
#include "tests/golden/report.hpp"

namespace tessera::golden {
namespace {

struct Options {
  std::string file, mesh, filter, partition = "all", precision = "fp32";
  std::uint64_t seed = 1;
  bool fsdp = false;
};

/// A tensor passes when max|got - want| <= rtol max|want| + atol, a scalar when it is within `scalar`.
struct Tolerances {
  double rtol, atol, scalar, params;
};
constexpr Tolerances kSingle{2e-4, 2e-5, 1e-3, 2e-3};
constexpr Tolerances kDouble{1e-8, 1e-10, 1e-8, 1e-7};

/// "ddp=2,domain=2" over all ranks; an axis ddp of one rank is put in front where there is none.
Mesh parse_mesh(const CommPtr& world, const std::string& text) {
  std::vector<MeshAxis> axes;
  std::stringstream list(text.empty() ? "domain=-1" : text);
  for (std::string item; std::getline(list, item, ',');) {
    const std::size_t at = item.find('=');
    int size = 0;
    if (at == std::string::npos || !CLI::detail::lexical_cast(item.substr(at + 1), size)) {
      fail(ExitCode::usage, "--mesh", "found '{}', expected name=size", item);
    }
    axes.push_back({item.substr(0, at), size});
  }
  const bool has_ddp =
      std::any_of(axes.begin(), axes.end(), [](const MeshAxis& a) { return a.name == "ddp"; });
  if (!has_ddp) axes.insert(axes.begin(), {"ddp", 1});
  return Mesh(world, axes);
}

/// The mesh of all axes but ddp, or of this rank alone where there is no other.
Mesh domain_of(const CommPtr& world, const Mesh& mesh) {
  const Mesh domain = mesh.without("ddp");
  if (domain) return domain;
  return Mesh(world->split(world->rank(), 0, "domain"), std::vector<MeshAxis>{{"domain", 1}});
}

Tensor loss_of(const std::string& name, const Tensor& prediction, const Tensor& target) {
  if (name == "mse_loss") return mse_loss(prediction, target);
  if (name == "l1_loss") return l1_loss(prediction, target);
  if (name == "relative_l2_loss") return relative_l2_loss(prediction, target);
  if (name == "cross_entropy") return cross_entropy(prediction, target);
  fail(ExitCode::input_file, "golden", "unknown loss '{}'", name);
}

/// Cut points of (1, *grid, 1): domain axis i shards grid axis i.
Layout grid_layout(const ModelCase& c, const Mesh& domain, Cuts cuts, std::uint64_t seed) {
  if (domain.axes() > c.config.grid.size()) {
    fail(ExitCode::usage, "--mesh", "{} domain axes for a grid {}", domain.axes(), to_string(c.config.grid));
  }
  OpCase grid;  // one input, sharded on its first dimensions
  grid.name = c.name;
  grid.input_order = {"grid"};
  grid.inputs["grid"].shape = c.config.grid;
  grid.inputs["grid"].shape.insert(0, 1);
  grid.inputs["grid"].shape.push_back(1);
  std::vector<int> dims;
  for (int a = 0; a < domain.axes(); ++a) dims.push_back(1 + a);
  return layouts_of(grid, {{"grid", dims}}, domain, cuts, seed).at("grid");
}

/// A training run: the library's side of a case on one mesh and partition.
class Run {
 public:
  Run(const ModelCase& c, const Mesh& mesh, const Layout& grid, DType type, const Tolerances& tolerances)
      : case_(c), mesh_(mesh), grid_(grid), type_(type), tolerances_(tolerances) {
    ModelConfig config = c.config;
    config.type = type;
    model_ = make_model(config);
    parameters_ = model_->parameters();
  }

  Findings operator()() {
    if (!set_parameters()) return findings_;
    DataParallel parallel(mesh_, parameters_);
    Optimizer optimizer(parameters_, case_.optimizer);
    for (Index s = 0; s < case_.steps; ++s) {
      parallel.zero_grad();
      const double loss = accumulate(s, parallel);
      parallel.finish();
      const double norm = gradient_norm(parameters_);
      if (s == 0) compare_parameters("grads0/", case_.grads0, tolerances_.rtol, tolerances_.atol, true);
      compare_scalar("losses", s, loss, case_.losses);
      compare_scalar("grad_norms", s, norm, case_.grad_norms);
      const bool clips = case_.clip_grad_norm >= 0;
      optimizer.step(case_.optimizer.lr, clips ? clip_factor(norm, case_.clip_grad_norm) : 1);
    }
    compare_parameters("params_final/", case_.params_final, tolerances_.params, 0, false);
    return findings_;
  }

 private:
  /// False where names or shapes differ.
  bool set_parameters() {
    for (const NamedTensor& p : parameters_) {
      const auto found = case_.params.find(p.name);
      if (found == case_.params.end()) {
        findings_.push_back("params/" + p.name + ": not in the file");
      } else if (found->second.shape != p.tensor.shape()) {
        findings_.push_back(fmt::format("params/{}: found shape {}, expected {}", p.name,
                                        to_string(p.tensor.shape()), to_string(found->second.shape)));
      } else {
        p.tensor.copy_from_host(std::span<const double>(found->second.values));
      }
    }
    if (parameters_.size() != case_.params.size()) {
      findings_.push_back(
          fmt::format("found {} parameters, expected {}", parameters_.size(), case_.params.size()));
    }
    return findings_.empty();
  }

  /// Forward and backward of this group's samples of step s; the mean loss over all groups.
  double accumulate(Index s, DataParallel& parallel) {
    const Index micro = case_.global_batch / mesh_.axis_size("ddp");
    const Index first = mesh_.coords()[mesh_.axis("ddp")] * micro;
    double loss = 0;
    Array outputs = case_.output0;  // samples of other groups are compared there
    for (Index b = first; b < first + micro; ++b) {
      const Tensor prediction = (*model_)(on_grid(case_.input(s, b, type_)));
      if (s == 0) keep_output(outputs, b, prediction);
      const Tensor mean = mul(loss_of(case_.loss, prediction, on_grid(case_.target(s, b, type_))),
                              1.0 / static_cast<double>(micro));
      loss += mean.item();
      parallel.set_last(b + 1 == first + micro);
      mean.backward();
    }
    if (s == 0) {
      compare(findings_, "output0", outputs.shape, outputs.values, case_.output0, tolerances_.rtol,
              tolerances_.atol);
    }
    return mesh_.axis_comm("ddp").all_reduce_value(loss, ReduceOp::avg);
  }

  /// Fields are cut like the grid; classes stay plain.
  Tensor on_grid(const Tensor& t) const {
    return t.ndim() < 3 ? t : scatter(t, grid_.with_extent(-1, t.dim(-1)), type_);
  }

  static void keep_output(Array& outputs, Index b, const Tensor& prediction) {
    const NoGrad no_grad;
    Tensor whole = full_tensor(prediction);
    if (whole.ndim() > 2) {  // (1, *grid, C) -> (1, C, *grid)
      std::vector<int> dims{0, whole.ndim() - 1};
      for (int d = 1; d + 1 < whole.ndim(); ++d) dims.push_back(d);
      whole = permute(whole, dims);
    }
    Shape want = outputs.shape;
    want[0] = 1;
    require(whole.shape() == want, "output0", "found {}, expected {}", to_string(whole.shape()),
            to_string(want));
    const std::vector<double> values = whole.to_host<double>();
    std::copy(values.begin(), values.end(), outputs.values.begin() + b * count(want));
  }

  void compare_parameters(const std::string& folder, const Arrays& want, double rtol, double atol,
                          bool gradients) {
    for (const NamedTensor& p : parameters_) {
      const auto found = want.find(p.name);
      if (found == want.end()) continue;
      compare(findings_, folder + p.name, gradients ? p.tensor.grad() : p.tensor.detach(), found->second,
              rtol, atol);
    }
  }

  void compare_scalar(const char* name, Index s, double got, const Array& want) {
    const double expected = want.values.at(static_cast<std::size_t>(s));
    if (!(std::abs(got - expected) <= tolerances_.scalar * std::abs(expected))) {
      findings_.push_back(fmt::format("{}[{}]: found {:.6g}, expected {:.6g}", name, s, got, expected));
    }
  }

  const ModelCase& case_;
  Mesh mesh_;
  Layout grid_;
  DType type_;
  Tolerances tolerances_;
  std::shared_ptr<Model> model_;
  std::vector<NamedTensor> parameters_;
  Findings findings_;
};

int run(const CommPtr& world, const Options& options) {
  if (options.fsdp) fail(ExitCode::usage, "--fsdp", "parameter sharding is not available");
  const std::map<std::string, DType> types{{"fp32", DType::f32}, {"fp64", DType::f64}};
  if (!types.count(options.precision)) {
    fail(ExitCode::usage, "--precision", "found '{}', expected fp32 or fp64", options.precision);
  }
  const DType type = types.at(options.precision);
  const std::vector<Cuts> kinds = cuts_of(options.partition);
  const std::regex filter = regex_of("--filter", options.filter);
  const Mesh mesh = parse_mesh(world, options.mesh);
  const Mesh domain = domain_of(world, mesh);
  const hdf5::File file = hdf5::File::open(options.file);
  const hdf5::Group models = file.root().group("models");
  Report report(world);
  int selected = 0;
  for (const std::string& name : models.members()) {
    if (!std::regex_search(name, filter)) continue;
    ++selected;
    const ModelCase c = read_model_case(models, name);
    if (c.global_batch % mesh.axis_size("ddp")) {
      fail(ExitCode::usage, "--mesh", "{} ddp groups for a global batch of {}", mesh.axis_size("ddp"),
           c.global_batch);
    }
    std::vector<Layout> done;  // on few ranks several kinds of cuts are the same
    for (Cuts cuts : kinds) {
      if (cuts == Cuts::differ) continue;
      const Layout grid = grid_layout(c, domain, cuts, options.seed + static_cast<std::uint64_t>(cuts));
      if (std::find(done.begin(), done.end(), grid) != done.end()) continue;
      done.push_back(grid);
      report.check(
          fmt::format("{} mesh {} partition {} ({})", name, to_string(mesh), name_of(cuts), to_string(grid)),
          Run(c, mesh, grid, type, type == DType::f64 ? kDouble : kSingle));
    }
  }
  if (selected == 0) fail(ExitCode::usage, "--filter", "no model of {} matches", options.file);
  return report.finish();
}

}  // namespace
}  // namespace tessera::golden

int main(int argc, char** argv) {
  int program_alone = 1;  // Kokkos would answer --help itself
  tessera::Runtime runtime(program_alone, argv);
  tessera::golden::Options options;
  CLI::App app("Trains the models of a golden file");
  app.add_option("file", options.file, "HDF5 file of models")->required();
  app.add_option("--mesh", options.mesh,
                 "axes over all ranks, for example ddp=2,domain=2; default domain=-1");
  app.add_option("--partition", options.partition, "even, uneven, empty or all (default)");
  app.add_option("--filter", options.filter, "only models whose name matches this regular expression");
  app.add_option("--precision", options.precision, "fp32 (default) or fp64");
  app.add_option("--seed", options.seed, "of random cut points");
  app.add_flag("--fsdp", options.fsdp, "shard parameters over ddp");
  return tessera::golden::parse_and_run(runtime, app, argc, argv,
                                        [&] { return tessera::golden::run(runtime.world(), options); });
}
