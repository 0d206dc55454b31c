#include "tests/golden/command.hpp"

namespace tessera::golden {

std::regex regex_of(const std::string& option, const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    fail(ExitCode::usage, option, "'{}': {}", text, error.what());
  }
}

int parse_and_run(const Runtime& runtime, CLI::App& app, int argc, char** argv,
                  const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (runtime.world()->rank() == 0) app.exit(error);
    return error.get_exit_code() == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  return run_guarded(*runtime.world(), body);
}

}  // namespace tessera::golden
