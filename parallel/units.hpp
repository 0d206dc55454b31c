#pragma once

#include <string>

namespace tessera {

/// "17 B", "731.6 KiB", "1.2 GiB".
std::string bytes_text(double bytes);

}  // namespace tessera
