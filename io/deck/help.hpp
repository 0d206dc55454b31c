#pragma once

#include <string>

#include "io/deck/schema.hpp"

namespace tessera {

/// The reference of all keys, for a terminal of 100 columns: path, type, range, unit, default, help.
std::string help(const Schema& schema);

/// The same as Markdown, one table per section.
std::string help_markdown(const Schema& schema);

}  // namespace tessera
