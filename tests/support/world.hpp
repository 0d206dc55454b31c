#pragma once

#include "parallel/communicator.hpp"

namespace tessera::testing {

/// The communicator of all ranks that this test program was launched with.
CommPtr world();
/// For main(): what world() gives; null before the program ends.
void set_world(CommPtr world);

}  // namespace tessera::testing
