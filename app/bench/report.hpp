#pragma once

#include "app/bench/runner.hpp"

namespace tessera::bench {

/// One line of the table of figures.
struct Figure {
  std::string what;
  std::string mark;
  std::string measured = "not measured: needs more ranks";
  std::string verdict = "";  ///< "met", "missed"; empty: not measured, or with small sizes
};

/// Processor, cores, threads of a rank and version: what figures depend on.
std::string machine_text(int ranks);

/// "195 Gflop/s".
std::string rate_text(double rate, const std::string& unit);

std::string table_text(const std::vector<Row>& rows);
/// `figures`: of a suite, else none.
std::string json_text(const std::vector<Row>& rows, int ranks, const std::vector<Figure>& figures = {});
std::string figures_text(const std::vector<Figure>& figures);
/// One picture per kind and model: rate over size, a line for each number of ranks.
void write_plot(const std::vector<Row>& rows, const std::filesystem::path& path);

}  // namespace tessera::bench
