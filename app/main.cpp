#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "app/command_line.hpp"
#include "app/log.hpp"
#include "io/hdf5/file.hpp"
#include "parallel/runtime.hpp"
#include "solver/tensor/operator_clock.hpp"

namespace tessera {
namespace {

int run(const CommPtr& world, const std::vector<std::string>& arguments) {
  const Invocation invocation = parse_command_line(commands(), arguments);
  const bool root = world->rank() == 0;
  if (!invocation.print.empty()) {
    if (root) std::fputs(invocation.print.c_str(), stdout);
    return 0;
  }
  set_up_logging(invocation.line, world->rank());
  if (invocation.line.profile) OperatorClock::global().enable();
  const int code = invocation.command->run(world, invocation.line);
  if (invocation.line.profile && root) std::fputs(OperatorClock::global().report().c_str(), stdout);
  if (invocation.line.comm_stats) {
    const std::string report = CommStats::global().report(*world);
    if (root) std::fputs(report.c_str(), stdout);
  }
  return code;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  // A write past the limit of a file's size is then an error like that of a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  // Kokkos gets its own options only: it would take --help, too.
  std::vector<std::string> arguments;
  std::vector<char*> kokkos{argv[0]};
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--kokkos-")) {
      kokkos.push_back(argv[i]);
    } else {
      arguments.emplace_back(argv[i]);
    }
  }
  int kokkos_count = static_cast<int>(kokkos.size());
  kokkos.push_back(nullptr);
  char** kokkos_arguments = kokkos.data();
  try {
    tessera::Runtime runtime(kokkos_count, kokkos_arguments);
    const tessera::CommPtr world = runtime.world();
    const int code = tessera::run_guarded(*world, [&] { return tessera::run(world, arguments); });
    if (code != 0 && tessera::hdf5::files_abandoned()) {
      std::fflush(nullptr);
      std::_Exit(code);
    }
    return code;
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "tessera: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
