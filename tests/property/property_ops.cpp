// Draws operators, parameters, operands, meshes and layouts at random and compares with one process: outputs,
// every gradient, finite differences. See README.md of this folder.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <regex>

#include <CLI/CLI.hpp>

#include "parallel/runtime.hpp"
#include "solver/ops/registry/operator.hpp"
#include "tests/golden/command.hpp"
#include "tests/golden/report.hpp"
#include "tests/property/check.hpp"
#include "tests/property/watchdog.hpp"
#include "tests/support/world.hpp"

namespace tessera::property {
namespace {

struct Options {
  std::uint64_t cases = 300, seed = 1;
  std::int64_t only = -1;
  double minutes = 0;
  int patience = 60;
  std::string filter;
  bool differences = false, list = false, verbose = false;
};

/// Whether another case is to run; the same on all ranks.
class Budget {
 public:
  explicit Budget(const Options& options) : options_(options) {}

  bool allows(std::uint64_t run) const {
    if (options_.minutes <= 0) return run < options_.cases;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    const int over = spent.count() > 60 * options_.minutes ? 1 : 0;
    return testing::world()->all_reduce_value(over, ReduceOp::max) == 0;
  }

 private:
  const Options& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void run_one(const Options& options, std::uint64_t number, golden::Report& report, Watchdog& watchdog) {
  Case c = make_case(options.seed, number, options.differences);
  const std::string what =
      fmt::format("mpirun -n {} property_ops --seed {} --case {}{}: {}", testing::world()->size(),
                  options.seed, number, options.differences ? " --finite-differences" : "", c.text);
  watchdog.watch(what);
  if (options.verbose && testing::world()->rank() == 0) {
    std::printf("%s\n", what.c_str());
    std::fflush(stdout);
  }
  report.check(what, [&] { return check(c); });
}

/// Registered operators that no generator draws.
golden::Findings check_coverage() {
  golden::Findings missing;
  for (const Operator* op : registered_operators()) {
    const bool drawn =
        std::any_of(table().begin(), table().end(), [&](const Generator& g) { return g.op == op->name; });
    if (!drawn) missing.push_back("none for " + op->name);
  }
  return missing;
}

int list_operators() {
  if (testing::world()->rank() != 0) return 0;
  for (const Generator& g : table()) std::printf("%s\n", g.op.c_str());
  return 0;
}

int run(const Options& options) {
  if (options.list) return list_operators();
  const std::regex filter = golden::regex_of("--filter", options.filter);
  golden::Report report(testing::world());
  Watchdog watchdog(testing::world()->rank(), std::chrono::seconds(options.patience));
  if (options.only >= 0) {
    run_one(options, static_cast<std::uint64_t>(options.only), report, watchdog);
    return report.finish();
  }
  report.check("a generator for every operator", check_coverage);
  const Budget budget(options);
  std::uint64_t run = 0, skipped = 0;
  for (std::uint64_t number = 0; budget.allows(run); ++number) {
    if (!std::regex_search(generator_of(number).op, filter)) {
      if (++skipped > round_length() && run == 0)
        fail(ExitCode::usage, "--filter", "no operator matches '{}'", options.filter);
      continue;
    }
    run_one(options, number, report, watchdog);
    ++run;
  }
  return report.finish();
}

}  // namespace
}  // namespace tessera::property

int main(int argc, char** argv) {
  int program_alone = 1;  // Kokkos would answer --help itself
  tessera::Runtime runtime(program_alone, argv);
  tessera::testing::set_world(runtime.world());
  tessera::property::Options options;
  CLI::App app("Compares randomly drawn operators, layouts and meshes with one process");
  app.add_option("--cases", options.cases, "number of cases");
  app.add_option("--minutes", options.minutes, "run for this long instead");
  app.add_option("--patience", options.patience, "seconds after which a case counts as stuck");
  app.add_option("--seed", options.seed, "of the cases");
  app.add_option("--case", options.only, "run this one case only");
  app.add_option("--filter", options.filter, "only operators whose name matches this regular expression");
  app.add_flag("--finite-differences", options.differences, "of every case that allows them, not of a third");
  app.add_flag("--list", options.list, "print the operators");
  app.add_flag("--verbose", options.verbose, "print every case before it runs");
  const int code = tessera::golden::parse_and_run(runtime, app, argc, argv,
                                                  [&] { return tessera::property::run(options); });
  tessera::testing::set_world(nullptr);
  return code;
}
