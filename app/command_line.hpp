#pragma once

#include <span>
#include <string>

#include "app/commands.hpp"

namespace tessera {

/// What the arguments ask for: a command to run, or a text to print.
struct Invocation {
  const Command* command = nullptr;
  CommandLine line;
  std::string print;  ///< not empty: print this and be done
};

/// Parses the arguments after the program's name. Needs no communication: the same arguments give the same
/// result on every rank. Throws (usage): unknown command or option, with the nearest one; missing deck; bad
/// value.
Invocation parse_command_line(std::span<const Command> commands, const std::vector<std::string>& arguments);

}  // namespace tessera
