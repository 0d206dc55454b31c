#pragma once

#include <string>

namespace tessera {

/// The registered operators as a Markdown table per family: signature, what moves when each kind of dimension
/// is cut, and how pending reductions are taken.
std::string operator_table();

}  // namespace tessera
