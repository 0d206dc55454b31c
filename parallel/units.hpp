#pragma once

#include <string>

namespace tessera {

/// "17 B", "731.6 KiB", "1.2 GiB".
std::string bytes_text(double bytes);

/// "17.2 us", "12.3 ms", "1.04 s".
std::string time_text(double seconds);

}  // namespace tessera
