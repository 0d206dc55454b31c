#include "io/version.hpp"

namespace tessera {

std::string version() {
  return "0.1.0";
}

}  // namespace tessera
