#pragma once

#include <exception>
#include <functional>
#include <string>

#include "parallel/communicator.hpp"

namespace tessera {

/// Runs `body` on every rank of `comm`; if it threw on any, every rank throws the error of the lowest such
/// rank, so that all ranks fail alike and none waits for another. Collective; `body` itself must not
/// communicate over `comm` after a point at which it can fail on some ranks only.
void run_together(Communicator& comm, const std::function<void()>& body);

/// The same, with `body` run on rank 0 alone.
void run_on_root(Communicator& comm, const std::function<void()>& body);

}  // namespace tessera
