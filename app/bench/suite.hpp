#pragma once

#include <vector>

#include "app/bench/report.hpp"

namespace tessera::bench {

struct SuiteResult {
  std::vector<Figure> figures;
  std::vector<Row> rows;  ///< in the order in which they were measured
};

/// Measures the figures that the library is held to, each against its mark: on every rank the same cases, the
/// results on rank 0. `quick`: small sizes, which see that everything runs; nothing is met or missed.
/// Collective.
SuiteResult run_suite(Runner& runner, bool quick);

}  // namespace tessera::bench
