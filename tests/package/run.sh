#!/usr/bin/env bash
# Installs a build, builds the programs in this folder against the installed package, and runs them on 2 and 3 ranks.
# Usage: run.sh BUILD_FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/installed" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/installed"
cmake --build "$work/build"
mpirun -n 2 "$work/build/training_step"
mpirun -n 3 "$work/build/laplacian"
