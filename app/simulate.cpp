#include "app/commands.hpp"
namespace tessera {
Schema simulate_schema() { return Schema("x", [](Section& s){ s.integer("steps").min(1).help("q"); }); }
int simulate(const CommPtr& world, const CommandLine& line) { Run run(world, line, simulate_schema()); run.open_folder(); return 0; }
}
