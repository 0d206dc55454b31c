#include "io/atomic_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include "parallel/error.hpp"

namespace tessera {
namespace fs = std::filesystem;

fs::path partial_name(const fs::path& final_name) {
  fs::path partial = final_name;
  partial += ".partial";
  return partial;
}

void sync_to_disk(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(ExitCode::input_file, path.string(), "cannot open: {}", std::strerror(errno));
  // Some file systems cannot sync folders (EINVAL); nothing is lost there.
  const bool good = ::fsync(file) == 0 || errno == EINVAL;
  const int code = errno;
  ::close(file);
  if (!good) fail(ExitCode::input_file, path.string(), "cannot write to the disk: {}", std::strerror(code));
}

void publish(const fs::path& partial, const fs::path& final_name) {
  sync_to_disk(partial);
  std::error_code ec;
  fs::rename(partial, final_name, ec);
  if (ec)
    fail(ExitCode::input_file, final_name.string(), "cannot rename '{}': {}", partial.string(), ec.message());
  sync_to_disk(fs::absolute(final_name).parent_path());
}

void write_text_atomically(const fs::path& path, std::string_view text) {
  const fs::path partial = partial_name(path);
  {
    std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
    stream.write(text.data(), static_cast<std::streamsize>(text.size()));
    stream.flush();
    if (!stream) fail(ExitCode::input_file, path.string(), "cannot write: {}", std::strerror(errno));
  }
  publish(partial, path);
}

std::string read_text(const fs::path& path, std::size_t most) {
  std::error_code ec;
  const auto bytes = fs::file_size(path, ec);
  if (ec) fail(ExitCode::input_file, path.string(), "cannot read: {}", ec.message());
  if (bytes > most)
    fail(ExitCode::input_file, path.string(), "size: found {} bytes, expected at most {}", bytes, most);
  std::string text(bytes, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(bytes));
  if (!stream) fail(ExitCode::input_file, path.string(), "cannot read: {}", std::strerror(errno));
  return text;
}

}  // namespace tessera
