// Fails in the way its argument says; guarded_program.sh checks exit code, message and time.
#include <string>
#include <thread>

#include "parallel/runtime.hpp"

namespace tessera {
namespace {

int body(Communicator& world, const std::string& how) {
  const bool last = world.rank() == world.size() - 1;
  if (how == "none") return 0;
  if (how == "all") fail(ExitCode::input_file, "field.h5", "dataset is missing");
  if (how == "each") fail(ExitCode::usage, "deck", "bad value on rank {}", world.rank() % 2);
  if (how == "unknown") throw 7;
  if (how == "one" && last) fail(ExitCode::numerical, "step 3", "found NaN");
  if (how == "late" && last) std::this_thread::sleep_for(std::chrono::seconds(60));
  world.barrier();
  return static_cast<int>(ExitCode::stopped_early);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::Runtime runtime(argc, argv);
  const std::string how = argc > 1 ? argv[1] : "none";
  return tessera::run_guarded(*runtime.world(), [&] { return tessera::body(*runtime.world(), how); });
}
