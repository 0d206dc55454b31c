#pragma once

#include <filesystem>
#include <string>

namespace tessera::testing {

/// What one launch of the program did.
struct Launch {
  int code = -1;
  std::string out, err;
  double seconds = 0;

  /// Error messages of the program, the launcher's own left out.
  int messages() const;
};

/// Ranks of every launch of this test run (environment variable TESSERA_TEST_RANKS).
int ranks();

/// Runs `tessera <arguments>` (shell syntax) on `ranks()` ranks in `folder`; killed after a minute.
Launch tessera(const std::filesystem::path& folder, const std::string& arguments);
/// The same, with a signal to one of the ranks as soon as the file `wait_for` (below `folder`) is there.
Launch tessera_signalled(const std::filesystem::path& folder, const std::string& arguments,
                         const std::string& wait_for, const std::string& signal);

/// A new, empty folder of that name.
std::filesystem::path fresh_folder(const std::string& name);
void write_file(const std::filesystem::path& path, const std::string& text);
std::string read_file(const std::filesystem::path& path);
/// Files below `folder`, their number.
int files_below(const std::filesystem::path& folder);
/// Whether a file that is not complete is below `folder`.
bool has_partial_file(const std::filesystem::path& folder);

}  // namespace tessera::testing
