#pragma once

#include "parallel/communicator.hpp"

namespace tessera {

/// All ranks of the launched program. Collective; MPI must be running. The timeout of waits is 10 minutes, or
/// the environment variable TESSERA_TIMEOUT_SECONDS.
CommPtr world_communicator();

/// Frees what all ranks share. Collective, once, before MPI_Finalize; no communicator is used afterwards.
void close_world(Communicator& world);

}  // namespace tessera
