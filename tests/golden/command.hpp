#pragma once

#include <functional>
#include <regex>
#include <string>

#include <CLI/CLI.hpp>

#include "parallel/runtime.hpp"

namespace tessera::golden {

/// Throws (usage), naming the option, where `text` is not a regular expression.
std::regex regex_of(const std::string& option, const std::string& text);

/// Parses the command line and runs `body`; the exit code of the program, 2 for a bad command line.
int parse_and_run(const Runtime& runtime, CLI::App& app, int argc, char** argv,
                  const std::function<int()>& body);

}  // namespace tessera::golden
