#include "app/bench/plain_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "io/agree.hpp"
#include "io/atomic_file.hpp"

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

  int id() const { return id_; }

  /// Calls `transfer(descriptor, bytes, offset)` until all of `part` are moved.
  template <typename Transfer>
  void move(Range part, const Transfer& transfer) const {
    for (Index at = part.lo; at < part.hi;) {
      const auto moved = transfer(id_, static_cast<std::size_t>(std::min(part.hi - at, kBlock)), at);
      if (moved <= 0)
        fail(ExitCode::usage, path_, "cannot write and read the file: {}", std::strerror(errno));
      at += moved;
    }
  }

 private:
  std::string path_;
  int id_;
};

/// One rank's view of the file.
struct PlainFile {
  CommPtr group;
  Range part;
  std::string path;
  std::vector<char> buffer;
  std::shared_ptr<FileRemover> remover;  ///< on one rank

  PlainFile(CommPtr g, Range p, const std::filesystem::path& folder)
      : group(std::move(g)),
        part(p),
        path((folder / "tessera_bench_plain.bin").string()),
        buffer(static_cast<std::size_t>(std::min(part.size(), kBlock)), 'x') {
    if (group->rank() == 0) remover = std::make_shared<FileRemover>(path);
  }

  void write() {
    run_on_root(*group, [&] { Descriptor(path, O_WRONLY | O_CREAT | O_TRUNC); });
    run_together(*group, [&] {
      Descriptor(path, O_WRONLY).move(part, [&](int id, std::size_t n, Index at) {
        return ::pwrite(id, buffer.data(), n, at);
      });
    });
    flush_to_disk(*group, path);
  }

  void read() {
    drop_cache(*group, path);
    run_together(*group, [&] {
      Descriptor(path, O_RDONLY).move(part, [&](int id, std::size_t n, Index at) {
        return ::pread(id, buffer.data(), n, at);
      });
    });
  }
};

}  // namespace

FileRemover::~FileRemover() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void drop_cache(Communicator& group, const std::filesystem::path& path) {
  run_on_root(group, [&] {
    const Descriptor file(path.string(), O_RDONLY);
    // A system that keeps the file in memory anyway does so for both files that are compared.
    static_cast<void>(::posix_fadvise(file.id(), 0, 0, POSIX_FADV_DONTNEED));
  });
}

void flush_to_disk(Communicator& group, const std::filesystem::path& path) {
  run_on_root(group, [&] { sync_to_disk(path); });
}

std::function<void()> plain_write(const CommPtr& group, Range part, const std::filesystem::path& folder) {
  return [file = PlainFile(group, part, folder)]() mutable { file.write(); };
}

std::function<void()> plain_read(const CommPtr& group, Range part, const std::filesystem::path& folder) {
  PlainFile file(group, part, folder);
  file.write();
  return [file]() mutable { file.read(); };
}

}  // namespace tessera::bench
