// io: a parallel HDF5 file, each rank its own rows, against a plain file of the same size.
#include "app/bench/kinds.hpp"
#include "app/bench/plain_file.hpp"
#include "io/hdf5/file.hpp"

namespace tessera::bench {
namespace {

constexpr Index kRow = 1024;  ///< floats
constexpr Index kRowsOfMiB = (Index{1} << 20) / (kRow * Index{sizeof(float)});

struct FileWork {
  CommPtr group;
  std::string path;
  Box box;
  std::vector<float> values;
  std::shared_ptr<FileRemover> remover;  ///< on one rank

  void run(const Shape& shape) {
    hdf5::File out = hdf5::File::create(path, group.get());
    out.root().create_dataset("field", {.shape = shape, .chunk = {}}).write(box, values.data());
    out.close();
    hdf5::File in = hdf5::File::open(path, group.get());
    in.root().dataset("field").read(box, values.data());
    in.close();
  }
};

}  // namespace

Work make_io(const Place& place, const Case& c) {
  const Shape shape{c.size * kRowsOfMiB, kRow};
  FileWork file{place.group,
                (place.folder / "tessera_bench.h5").string(),
                cut_over(place.group, shape, 0, c.uneven).local_box(),
                {},
                nullptr};
  file.values.assign(static_cast<std::size_t>(file.box.volume()), 0.75f);
  if (place.group->rank() == 0) file.remover = std::make_shared<FileRemover>(file.path);
  const Index bytes = c.size << 20;
  Work work;
  work.run = [file, shape]() mutable { file.run(shape); };
  work.amount = 2 * static_cast<double>(bytes);
  work.limit_name = "plain file";
  work.limit = [bytes, folder = place.folder, &limits = place.limits] { return limits.file(bytes, folder); };
  return work;
}

}  // namespace tessera::bench
