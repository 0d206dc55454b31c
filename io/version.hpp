#pragma once

#include <string>

namespace tessera {

/// "0.1.0".
std::string version();

}  // namespace tessera
