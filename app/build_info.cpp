#include "app/build_info.hpp"

#include <fmt/format.h>
#include <hdf5.h>
#include <mpi.h>
#include <Kokkos_Core.hpp>
#include <dnnl.hpp>

#include "git_hash.hpp"
#include "io/version.hpp"

namespace tessera {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang++ " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return "unknown";
#endif
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::string hdf5_library() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace

std::string git_hash() {
  return TESSERA_GIT_HASH;
}

std::string build_info() {
  const auto* dnnl = dnnl::version();
  std::string spaces = Kokkos::DefaultExecutionSpace::name();
  if (const std::string host = Kokkos::DefaultHostExecutionSpace::name(); host != spaces)
    spaces += ", " + host;
  return fmt::format(
      "tessera {}\n"
      "  git       {}\n"
      "  compiler  {}\n"
      "  backends  communication: MPI; convolution, matrix products: oneDNN; kernels: Kokkos\n"
      "  Kokkos    {}.{}.{} (execution spaces: {}; memory: {})\n"
      "  MPI       {}\n"
      "  HDF5      {} (parallel)\n"
      "  oneDNN    {}.{}.{}\n",
      version(), git_hash(), compiler(), KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100,
      KOKKOS_VERSION % 100, spaces, Kokkos::DefaultExecutionSpace::memory_space::name(), mpi_library(),
      hdf5_library(), dnnl->major, dnnl->minor, dnnl->patch);
}

}  // namespace tessera
