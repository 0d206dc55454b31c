// Runs the operator cases of a golden file on all ranks: unsharded, and under every sharding, mesh and
// partition that the case asks for. See README.md of this folder for the format.
#include <algorithm>
#include <cstdio>
#include <regex>

#include <CLI/CLI.hpp>

#include "parallel/runtime.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"
#include "tests/golden/command.hpp"
#include "tests/golden/golden_file.hpp"
#include "tests/golden/op_table.hpp"
#include "tests/golden/partitions.hpp"
#include "tests/golden/report.hpp"

namespace tessera::golden {
namespace {

struct Options {
  std::string file, filter, partition = "all";
  std::uint64_t seed = 1;
  bool list = false;
};

Tensor make_input(const OpCase& c, const std::string& name, const Layouts& layouts) {
  const Tensor whole = c.inputs.at(name).tensor(DType::f32);
  const auto layout = layouts.find(name);
  const Tensor t = layout == layouts.end() ? whole : scatter(whole, layout->second, whole.dtype());
  if (c.gradients.count(name)) t.set_requires_grad();
  return t;
}

void compare_gradient(Findings& findings, const OpCase& c, const std::string& name, const Tensor& input) {
  const Tensor gradient = input.grad();
  if (!gradient) {
    findings.push_back("grads/" + name + ": there is none");
  } else if (!(gradient.layout() == input.layout())) {
    findings.push_back("grads/" + name + ": found " + describe(gradient) +
                       ", expected the layout of the input");
  } else {
    compare(findings, "grads/" + name, gradient, c.gradients.at(name), c.rtol, c.atol);
  }
}

/// One variant of a case: the layouts given, the other inputs plain.
Findings run_variant(const OpCase& c, const Layouts& layouts) {
  std::map<std::string, Tensor> inputs;
  for (const std::string& name : c.input_order) inputs[name] = make_input(c, name, layouts);
  const std::vector<Tensor> outputs = run_op(c.op, Arguments(c.attributes, inputs));
  if (outputs.size() != c.output_order.size()) {
    return {fmt::format("found {} outputs, expected {}", outputs.size(), c.output_order.size())};
  }
  Findings findings;
  std::vector<Tensor> roots, cotangents;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = c.output_order[i];
    const Tensor whole = full_tensor(outputs[i]);
    compare(findings, name, whole, c.outputs.at(name), c.rtol, c.atol);
    if (!c.cotangents.count(name) || !whole.requires_grad()) continue;
    roots.push_back(whole);
    cotangents.push_back(c.cotangents.at(name).tensor(DType::f32));
  }
  if (!findings.empty()) return findings;
  if (!roots.empty()) backward(roots, cotangents);
  for (const std::string& name : c.input_order) {
    if (c.gradients.count(name)) compare_gradient(findings, c, name, inputs.at(name));
  }
  return findings;
}

std::string text_of(const Sharding& sharding) {
  return nlohmann::json(sharding).dump();
}

void run_sharding(Report& report, const OpCase& c, const Sharding& sharding, DomainMeshes& meshes,
                  const Options& options) {
  const std::size_t axes = sharding.begin()->second.size();
  for (const auto& [name, dims] : sharding) {
    if (dims.size() != axes || axes == 0) {
      report.check(c.name + " sharding " + text_of(sharding),
                   [] { return Findings{"the inputs are sharded over different numbers of axes"}; });
      return;
    }
  }
  for (const Mesh& mesh : meshes.with_axes(static_cast<int>(axes))) {
    std::vector<std::string> done;  // with few ranks or one input several kinds of cuts are the same
    for (Cuts cuts : cuts_of(options.partition)) {
      if (cuts == Cuts::differ && sharding.size() < 2) continue;
      const std::uint64_t seed =
          options.seed + std::hash<std::string>()(c.name) + 1000 * axes + static_cast<std::uint64_t>(cuts);
      std::string what = c.name + " sharding " + text_of(sharding) + " partition " + name_of(cuts);
      Layouts layouts;
      std::string error;
      try {
        layouts = layouts_of(c, sharding, mesh, cuts, seed);
      } catch (const Error& caught) {
        error = caught.what();
      }
      const std::string text = to_string(layouts);
      if (std::find(done.begin(), done.end(), text) != done.end()) continue;
      done.push_back(text);
      report.check(what + " (" + text + ")",
                   [&] { return error.empty() ? run_variant(c, layouts) : Findings{error}; });
    }
  }
}

bool is_selected(const std::regex& filter, const hdf5::Group& cases, const std::string& name) {
  return std::regex_search(name, filter) ||
         std::regex_search(text_attribute(cases.group(name), "op"), filter);
}

int run(const CommPtr& world, const Options& options) {
  cuts_of(options.partition);
  const std::regex filter = regex_of("--filter", options.filter);
  const hdf5::File file = hdf5::File::open(options.file);
  const hdf5::Group cases = file.root().group("cases");
  DomainMeshes meshes(world);
  Report report(world);
  int selected = 0;
  for (const std::string& name : cases.members()) {
    if (!is_selected(filter, cases, name)) continue;
    ++selected;
    const OpCase c = read_op_case(cases, name);
    if (options.list) {
      if (world->rank() == 0) std::printf("%s %s\n", name.c_str(), c.op.c_str());
      continue;
    }
    report.check(name + " unsharded", [&] { return run_variant(c, {}); });
    for (const Sharding& sharding : c.shardings) {
      if (!sharding.empty()) run_sharding(report, c, sharding, meshes, options);
    }
  }
  if (selected == 0) fail(ExitCode::usage, "--filter", "no case of {} matches", options.file);
  return options.list ? 0 : report.finish();
}

}  // namespace
}  // namespace tessera::golden

int main(int argc, char** argv) {
  int program_alone = 1;  // Kokkos would answer --help itself
  tessera::Runtime runtime(program_alone, argv);
  tessera::golden::Options options;
  CLI::App app("Runs the operator cases of a golden file");
  app.add_option("file", options.file, "HDF5 file of cases")->required();
  app.add_option("--filter", options.filter,
                 "only cases whose name or operator matches this regular expression");
  app.add_option("--partition", options.partition, "even, uneven, empty or all (default)");
  app.add_option("--seed", options.seed, "of random cut points");
  app.add_flag("--list", options.list, "print the selected cases");
  return tessera::golden::parse_and_run(runtime, app, argc, argv,
                                        [&] { return tessera::golden::run(runtime.world(), options); });
}
