#include "app/bench/plain_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace tessera::bench {
namespace {

constexpr Index kBlock = Index{8} << 20;  ///< bytes of one call

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : path_(path), id_(::open(path.c_str(), flags, 0644)) {
    if (id_ < 0) fail(ExitCode::usage, path_, "cannot open the file: {}", std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(id_); }

  /// Calls `transfer(descriptor, bytes)` until all are moved.
  template <typename Transfer>
  void move(Index bytes, const Transfer& transfer) const {
    while (bytes > 0) {
      const auto moved = transfer(id_, static_cast<std::size_t>(std::min(bytes, kBlock)));
      if (moved <= 0)
        fail(ExitCode::usage, path_, "cannot write and read the file: {}", std::strerror(errno));
      bytes -= moved;
    }
  }

 private:
  std::string path_;
  int id_;
};

}  // namespace

FileRemover::~FileRemover() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::function<void()> plain_file(Index bytes, const std::filesystem::path& folder) {
  if (bytes == 0) return [] {};
  const std::string path = (folder / "tessera_bench_plain.bin").string();
  std::vector<char> buffer(static_cast<std::size_t>(std::min(bytes, kBlock)), 'x');
  return [=, remover = std::make_shared<FileRemover>(path)]() mutable {
    Descriptor(path, O_WRONLY | O_CREAT | O_TRUNC).move(bytes, [&](int id, std::size_t n) {
      return ::write(id, buffer.data(), n);
    });
    Descriptor(path, O_RDONLY).move(bytes, [&](int id, std::size_t n) {
      return ::read(id, buffer.data(), n);
    });
  };
}

}  // namespace tessera::bench
