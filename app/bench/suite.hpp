#pragma once

#include <string>

#include "app/bench/runner.hpp"

namespace tessera::bench {

/// Measures the figures that the library is held to, each against its mark, and returns them as a table: on
/// every rank the same cases, the text on rank 0. Collective.
std::string run_suite(Runner& runner);

}  // namespace tessera::bench
