#include "app/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tessera {

void set_up_logging(const CommandLine& line, int rank) {
  auto logger =
      std::make_shared<spdlog::logger>("tessera", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(rank == 0 ? "%^%l%$: %v" : "%^%l%$ (rank " + std::to_string(rank) + "): %v");
  const bool few = line.quiet || (rank != 0 && !line.verbose);
  logger->set_level(line.verbose ? spdlog::level::debug : few ? spdlog::level::warn : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace tessera
