#!/usr/bin/env bash
# Installs what Tessera needs from the distribution's packages, and sets the environment of MPI programs.
# Source it: `source app/setup.sh`. It defines tessera_install and tessera_build, and exports the OpenMPI settings with which
# programs run as root and with more ranks than cores.

tessera_packages=(
  g++ cmake ninja-build ccache mold pkg-config git ca-certificates
  libtrilinos-kokkos-dev libopenmpi-dev openmpi-bin libhdf5-openmpi-dev
  libyaml-cpp-dev libdnnl-dev ocl-icd-opencl-dev libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libpng-dev
  libfftw3-dev
  netcdf-bin ferret-datasets
)
tessera_test_packages=(libgtest-dev python3 procps)

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # containers often forbid reading another process's memory
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# Installs the packages that are missing, and those named as arguments.
tessera_install() {
  local missing=() package
  for package in "${tessera_packages[@]}" "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  echo "Installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Configures and builds the given targets of the release preset (all of them without arguments). TESSERA_CMAKE_ARGUMENTS is
# passed on to CMake. (nproc would not do: it obeys OMP_NUM_THREADS.)
tessera_build() {
  local log targets=()
  log=$(mktemp)
  # shellcheck disable=SC2086
  cmake --preset release ${TESSERA_CMAKE_ARGUMENTS:-} >"$log" 2>&1 || { cat "$log"; rm -f "$log"; return 1; }
  rm -f "$log"
  [ $# -eq 0 ] || targets=(--target "$@")
  cmake --build --preset release -j "$(getconf _NPROCESSORS_ONLN)" "${targets[@]}"
}

# Puts the observed winds where the decks look for them.
tessera_winds() {
  mkdir -p data
  [ -s data/monthly_navy_winds.nc ] || nccopy -k nc4 /usr/share/ferret-vis/data/monthly_navy_winds.cdf data/monthly_navy_winds.nc
}
