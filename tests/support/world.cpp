#include "tests/support/world.hpp"

namespace tessera::testing {
namespace {

CommPtr g_world;

}  // namespace

CommPtr world() {
  return g_world;
}

void set_world(CommPtr world) {
  g_world = std::move(world);
}

}  // namespace tessera::testing
