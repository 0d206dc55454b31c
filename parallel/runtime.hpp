#pragma once

#include <functional>
#include <memory>

#include "parallel/communicator.hpp"

namespace tessera {

/// MPI and Kokkos for the lifetime of a program. Construct first thing in main().
class Runtime {
 public:
  Runtime(int& argc, char**& argv);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  CommPtr world() const { return world_; }

 private:
  CommPtr world_;
};

/// Runs `body` and turns exceptions into an exit code on all ranks. Where every rank failed, the distinct
/// messages are printed once each and the program ends in order; where only some did, they print theirs with
/// their rank and abort the job, so that the others end within seconds.
int run_guarded(Communicator& world, const std::function<int()>& body);

}  // namespace tessera
