#pragma once

#include <string>

namespace tessera {

/// The commit that the program was built from, with "-dirty" where files differed; "unknown" outside git.
std::string git_hash();

/// What `tessera --version` prints: version, git hash, compiler, backends and libraries.
std::string build_info();

}  // namespace tessera
