#pragma once

#include "parallel/communicator.hpp"

namespace tessera::testing {

/// The communicator of all ranks that this test program was launched with.
CommPtr world();

}  // namespace tessera::testing
