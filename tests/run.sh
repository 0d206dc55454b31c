#!/usr/bin/env bash
# Installs the packages, builds everything and runs every test. Arguments go to ctest, for example `-L unit`.
set -euo pipefail
cd "$(dirname "$0")/.."
source app/setup.sh

tessera_install "${tessera_test_packages[@]}"
TESSERA_CMAKE_ARGUMENTS="-DTESSERA_TESTS=ON ${TESSERA_CMAKE_ARGUMENTS:-}" tessera_build
ctest --preset release -j 1 "$@"
