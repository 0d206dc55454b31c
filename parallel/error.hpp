#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace tessera {

/// Exit codes of the program; documented in the README.
enum class ExitCode : int {
  done = 0,
  internal = 1,       ///< a fault of the program itself
  usage = 2,          ///< bad command line or deck
  input_file = 3,     ///< an input file is missing, damaged or does not fit
  numerical = 4,      ///< NaN, infinity, a time step that collapsed
  communication = 5,  ///< a lost rank or a timeout
  stopped_early = 6,  ///< stopped by walltime or a signal after a checkpoint; resumable
};

/// The one exception type of the library. The text reads `[where] what was wrong: what was found, what was
/// expected`.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string where, const std::string& text)
      : std::runtime_error("[" + where + "] " + text), code_(code) {}

  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Throws an Error whose text is formatted from `format` and `args`.
template <typename... Args>
[[noreturn]] void fail(ExitCode code, std::string where, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, std::move(where), fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an internal Error (a caller broke a contract of the library) when `condition` does not hold.
template <typename... Args>
void require(bool condition, const char* where, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(ExitCode::internal, where, format, std::forward<Args>(args)...);
}

}  // namespace tessera
