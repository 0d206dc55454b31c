#pragma once

#include "parallel/communicator.hpp"

namespace tessera {

/// How long ranks wait for each other: 10 minutes, or the environment variable TESSERA_TIMEOUT_SECONDS.
std::chrono::milliseconds default_timeout();

/// All ranks of the launched program, with the default timeout. Collective; MPI must be running.
CommPtr world_communicator();

/// Frees what all ranks share. Collective, once, before MPI_Finalize; no communicator is used afterwards.
void close_world(Communicator& world);

}  // namespace tessera
