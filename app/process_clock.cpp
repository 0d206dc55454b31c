#include "app/process_clock.hpp"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tessera {
namespace {

double now() {
  timespec t = {};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

const double loaded = now();

/// When the process was started, in seconds since the machine was: field 22 of /proc/self/stat. Where there
/// is no such file: when its libraries were loaded.
double process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the second field may hold blanks
  if (name_end == std::string::npos) return loaded;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  return fields ? std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK)) : loaded;
}

}  // namespace

double seconds_since_process_start() {
  return now() - process_start();
}

}  // namespace tessera
