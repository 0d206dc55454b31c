#include "parallel/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <mpi.h>
#include <omp.h>
#include <Kokkos_Core.hpp>

#include "parallel/communicator_mpi.hpp"

namespace tessera {
namespace {

/// Threads of this rank: the cores it may run on, at most its share of the node's.
int threads_per_rank() {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int ranks = 1;
  MPI_Comm_size(node, &ranks);
  MPI_Comm_free(&node);
  const int share = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / ranks;
  const int usable = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, std::min(share, usable));
}

}  // namespace

Runtime::Runtime(int& argc, char**& argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  try {
    if (provided < MPI_THREAD_MULTIPLE) {
      fail(ExitCode::communication, "runtime",
           "the MPI library gives thread level {}, expected {} (multiple)", provided, MPI_THREAD_MULTIPLE);
    }
    if (!std::getenv("OMP_NUM_THREADS")) omp_set_num_threads(threads_per_rank());
    Kokkos::initialize(argc, argv);
    world_ = world_communicator();
  } catch (const Error& error) {
    // Nothing that could report the error in order exists yet.
    std::fprintf(stderr, "tessera: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error.code()));
  }
}

Runtime::~Runtime() {
  close_world(*world_);
  world_.reset();
  release_memory_cache();
  Kokkos::finalize();
  MPI_Finalize();
}

}  // namespace tessera
