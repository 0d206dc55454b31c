// io-write, io-read: a parallel HDF5 file, each rank its own rows, against a plain file of the same size of
// which every rank moves the same bytes. Written files are flushed to the disk, files to be read are taken
// out of the system's cache, within the time that is measured and for both alike.
#include "app/bench/kinds.hpp"
#include "app/bench/plain_file.hpp"
#include "io/hdf5/file.hpp"

namespace tessera::bench {
namespace {

constexpr Index kRow = 1024;  ///< floats
constexpr Index kRowBytes = kRow * Index{sizeof(float)};

struct FileWork {
  CommPtr group;
  std::string path;
  Shape shape;
  Box box;
  std::vector<float> values;
  std::shared_ptr<FileRemover> remover;  ///< on one rank

  FileWork(const Place& place, const Case& c)
      : group(place.group),
        path((place.folder / "tessera_bench.h5").string()),
        shape{(c.size << 20) / kRowBytes, kRow},
        box(cut_over(group, shape, 0, c.uneven).local_box()),
        values(static_cast<std::size_t>(box.volume()), 0.75f) {
    if (group->rank() == 0) remover = std::make_shared<FileRemover>(path);
  }

  void write() {
    hdf5::File out = hdf5::File::create(path, group.get());
    out.root().create_dataset("field", {.shape = shape, .chunk = {}}).write(box, values.data());
    out.close();
    flush_to_disk(*group, path);
  }

  void read() {
    drop_cache(*group, path);
    hdf5::File in = hdf5::File::open(path, group.get());
    in.root().dataset("field").read(box, values.data());
    in.close();
  }

  Range bytes() const { return {box[0].lo * kRowBytes, box[0].hi * kRowBytes}; }
};

Work make_work(const Place& place, const Case& c, bool reading) {
  FileWork file(place, c);
  const Range part = file.bytes();
  if (reading) file.write();
  Work work;
  work.amount = static_cast<double>(c.size << 20);
  work.run = [file, reading]() mutable { reading ? file.read() : file.write(); };
  work.limit_name = reading ? "plain file, not cached" : "plain file, flushed";
  work.limit = [=, folder = place.folder, amount = work.amount, &limits = place.limits] {
    return limits.file(amount, part, c.uneven, reading, folder);
  };
  return work;
}

}  // namespace

Work make_io_write(const Place& place, const Case& c) {
  return make_work(place, c, false);
}
Work make_io_read(const Place& place, const Case& c) {
  return make_work(place, c, true);
}

}  // namespace tessera::bench
