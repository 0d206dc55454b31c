#pragma once

#include "app/bench/runner.hpp"

namespace tessera::bench {

/// Processor, cores, threads of a rank and version: what figures depend on.
std::string machine_text(int ranks);

/// "12.3 ms", "195 Gflop/s".
std::string time_text(double seconds);
std::string rate_text(double rate, const std::string& unit);

std::string table_text(const std::vector<Row>& rows);
std::string json_text(const std::vector<Row>& rows, int ranks);
/// One picture per kind and model: rate over size, a line for each number of ranks.
void write_plot(const std::vector<Row>& rows, const std::filesystem::path& path);

}  // namespace tessera::bench
