#pragma once

#include "app/run.hpp"

namespace tessera {

/// Sends spdlog's messages to stderr: warnings and errors of every rank, from rank 0 also plain information
/// unless --quiet; with --verbose everything of every rank.
void set_up_logging(const CommandLine& line, int rank);

}  // namespace tessera
