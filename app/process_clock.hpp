#pragma once

namespace tessera {

/// Seconds since the system started this process (loading of libraries and MPI included), to 0.01 s.
double seconds_since_process_start();

}  // namespace tessera
