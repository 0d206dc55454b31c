#pragma once

#include "app/run.hpp"

namespace tessera {

/// Sends spdlog's messages to stderr: warnings and errors of every rank; with --verbose, and of rank 0 unless
/// --quiet, more.
void set_up_logging(const CommandLine& line, int rank);

}  // namespace tessera
