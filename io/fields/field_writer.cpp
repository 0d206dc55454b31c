#include "io/fields/field_writer.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <numeric>

#include "io/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/fields/well_layout.hpp"
#include "io/fields/xdmf.hpp"
#include "io/hdf5/file.hpp"
#include "io/strided_copy.hpp"
#include "parallel/division.hpp"
#include "parallel/memory.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

constexpr Index kChunkElements = Index{1} << 20;
constexpr Index kHeaderBytes = Index{1} << 20;  // for what is not fields

// The longest extent of chunks that begin at every cut point; all of the axis where that would make chunks of
// less than an eighth of a part.
Index aligned_extent(Index extent, const Partition& cuts) {
  Index divisor = 0;
  for (const Index cut : cuts.cuts()) {
    if (cut > 0 && cut < extent) divisor = std::gcd(divisor, cut);
  }
  return divisor * 8 >= extent / cuts.parts() && divisor > 0 ? divisor : extent;
}

// The largest proper divisor; 1 of a prime.
Index divided(Index extent) {
  for (Index factor = 2; factor * factor <= extent; ++factor) {
    if (extent % factor == 0) return extent / factor;
  }
  return 1;
}

// (1, [1,] grid..., components...), aligned with the cut points, the leading grid axes divided until a chunk
// has about a million elements: parts of equal size begin at cut points, too. Axes that are not cut are
// halved.
Shape chunk_of(const Shape& shape, int lead, const std::vector<Partition>& cuts, int grid_dims) {
  Shape chunk = shape;
  for (int d = 0; d < lead; ++d) chunk[d] = 1;
  for (std::size_t a = 0; a < cuts.size(); ++a) {
    Index& extent = chunk[lead + static_cast<int>(a)];
    extent = aligned_extent(extent, cuts[a]);
  }
  for (int d = lead; d < lead + grid_dims; ++d) {
    const bool aligned = chunk[d] < shape[d];
    while (count(chunk) > kChunkElements && chunk[d] > 1) {
      const Index smaller = aligned ? divided(chunk[d]) : (chunk[d] + 1) / 2;
      if (8 * smaller < chunk[d]) break;  // slivers: rather large chunks
      chunk[d] = smaller;
    }
  }
  return chunk;
}

// Blocks of the disk for a file of so many bytes, as long as it is no larger. MPI-IO ranks whose neighbour
// meets a full disk in the middle of a collective write wait for it, so it has to be met before. File systems
// that cannot reserve leave it at that.
void reserve_blocks(const std::string& path, Index bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return;  // HDF5 has created it: it says itself what is wrong
  int failed = fallocate(file, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  close(file);
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && static_cast<rlim_t>(bytes) > limit.rlim_cur) failed = EFBIG;
  if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG)
    fail(ExitCode::input_file, path, "no room for {:.1f} MiB: {}", static_cast<double>(bytes) / (1 << 20),
         std::strerror(failed));
}

// Elements of a dataset on the disk: whole chunks.
Index stored_elements(const Shape& shape, const Shape& chunk) {
  Index n = 1;
  for (int d = 0; d < shape.size(); ++d) n *= ceil_div(shape[d], chunk[d]) * chunk[d];
  return n;
}

struct StoredField {
  hdf5::Dataset dataset;
  int first_channel = 0;  // among the channels of append() or of write_static()
  Shape components;       // (), (D) or (D, D)
  bool time_varying = true;
};

}  // namespace

struct FieldWriter::Impl {
  Impl(CommPtr c, std::string p, FieldFileSpec s)
      : comm(std::move(c)), path(std::move(p)), spec(std::move(s)) {}
  ~Impl() { discard(); }

  CommPtr comm;
  std::string path;
  FieldFileSpec spec;
  FieldSet set;
  hdf5::File file;
  bool open = false;
  std::vector<StoredField> stored;
  int moving_channels = 0, static_channels = 0;
  Index allocated_steps = 0;
  std::vector<std::vector<double>> times;  // per trajectory

  std::string partial() const { return partial_name(path).string(); }

  void create() {
    require(spec.trajectories > 0 && !spec.axes.empty() && spec.axes.size() <= 3, "FieldWriter",
            "{} trajectories on a grid of {} axes", spec.trajectories, spec.axes.size());
    for (const GridAxis& axis : spec.axes)
      require(!axis.coordinates.empty(), "FieldWriter", "empty axis {}", axis.name);
    require(spec.cuts.empty() || spec.cuts.size() == spec.axes.size(), "FieldWriter",
            "{} axes are cut, expected {} or none", spec.cuts.size(), spec.axes.size());
    set.axes = spec.axes;
    times.resize(static_cast<std::size_t>(spec.trajectories));
    allocated_steps = std::max<Index>(spec.expected_steps, 1);
    file = hdf5::File::create(partial(), comm.get());
    open = true;
    hdf5::Group root = file.root();
    write_well_header(root, spec);
    reserve_disk(allocated_steps);
    for (int order = 0; order <= 2; ++order) {
      hdf5::Group group = root.group(well_group(order));
      for (const OutputField& field : spec.fields) {
        if (field.order == order) add_field(group, field);
      }
    }
  }

  // (trajectories, [steps,] grid..., components...)
  Shape shape_of(const OutputField& field, Index steps) const {
    Shape shape{spec.trajectories};
    if (field.time_varying) shape.push_back(steps);
    for (const Index extent : set.grid()) shape.push_back(extent);
    for (int i = 0; i < field.order; ++i) shape.push_back(static_cast<Index>(spec.axes.size()));
    return shape;
  }
  Shape chunk_of_field(const OutputField& field, const Shape& shape) const {
    return chunk_of(shape, field.time_varying ? 2 : 1, spec.cuts, static_cast<int>(spec.axes.size()));
  }

  // Of compressed fields it is not known how much they need.
  void reserve_disk(Index steps) {
    if (spec.deflate > 0) return;
    Index elements = 0;
    for (const OutputField& field : spec.fields) {
      const Shape shape = shape_of(field, steps);
      elements += stored_elements(shape, chunk_of_field(field, shape));
    }
    run_on_root(*comm, [&] {
      reserve_blocks(partial(), elements * static_cast<Index>(size_of(spec.type)) + kHeaderBytes);
    });
  }

  void add_field(hdf5::Group& group, const OutputField& field) {
    const auto axes = static_cast<Index>(spec.axes.size());
    StoredField entry{.dataset = make_dataset(group, field), .components = Shape::filled(field.order, axes)};
    entry.time_varying = field.time_varying;
    int& channels = field.time_varying ? moving_channels : static_channels;
    entry.first_channel = channels;
    channels += static_cast<int>(count(entry.components));
    stored.push_back(std::move(entry));
  }

  hdf5::Dataset make_dataset(hdf5::Group& group, const OutputField& field) {
    const Shape shape = shape_of(field, allocated_steps);
    hdf5::Dataset dataset = group.create_dataset(
        field.name, {.element = spec.type == DType::f64 ? hdf5::Element::f64 : hdf5::Element::f32,
                     .shape = shape,
                     .chunk = chunk_of_field(field, shape),
                     .deflate = spec.deflate,
                     .growable = true,
                     .fill_nan = true});
    dataset.set_flags("dim_varying", std::vector<bool>(spec.axes.size(), true));
    dataset.set_flag("sample_varying", true);
    dataset.set_flag("time_varying", field.time_varying);
    if (field.order == 2) {
      dataset.set_flag("symmetric", false);
      dataset.set_flag("antisymmetric", false);
    }
    if (!field.unit.empty()) dataset.set_text("units", field.unit);
    return dataset;
  }

  // Grows the time axis by half, so that a long run resizes seldom.
  void reserve(Index steps) {
    if (steps <= allocated_steps) return;
    const Index more = std::max(steps, allocated_steps + allocated_steps / 2);
    reserve_disk(more);
    resize(spec.trajectories, more);
  }

  void resize(Index trajectories, Index steps) {
    for (StoredField& field : stored) {
      Shape shape = field.dataset.shape();
      shape[0] = trajectories;
      if (field.time_varying) shape[1] = steps;
      if (!(shape == field.dataset.shape())) field.dataset.resize(shape);
    }
    allocated_steps = steps;
  }

  template <typename T>
  void write(Index trajectory, Index step, const Box& box, const T* data, bool moving) {
    const Shape grid = set.grid();
    require(box.size() == grid.size() && (box.is_empty() || intersect(box, Box::whole(grid)) == box),
            "FieldWriter", "box {} of a grid {}", to_string(box), to_string(grid));
    for (StoredField& field : stored) {
      if (field.time_varying != moving) continue;
      if (spec.type == DType::f64) {
        write_field<double>(field, trajectory, step, box, data);
      } else {
        write_field<float>(field, trajectory, step, box, data);
      }
    }
  }

  // Gathers the field's channels into a buffer of the file's type: HDF5 keeps transfers collective only
  // without conversion.
  template <typename F, typename T>
  void write_field(StoredField& field, Index trajectory, Index step, const Box& box, const T* data) {
    const Index components = count(field.components);
    const Index channels = field.time_varying ? moving_channels : static_channels;
    Box target{{trajectory, trajectory + 1}};
    if (field.time_varying) target.push_back({step, step + 1});
    for (const Range r : box) target.push_back(r);
    for (const Index extent : field.components) target.push_back({0, extent});
    const Index cells = box.volume();
    const MemoryBlock staging(MemorySpace::host, static_cast<std::size_t>(cells * components) * sizeof(F));
    F* values = static_cast<F*>(staging.data());
    if (cells > 0) {
      copy_strided({cells, components}, data + field.first_channel, {channels, 1}, values, {components, 1});
    }
    field.dataset.write(target, values);
  }

  template <typename T>
  void append(Index trajectory, double time, const Box& box, const T* data) {
    auto& own = checked(trajectory);
    const auto step = static_cast<Index>(own.size());
    reserve(step + 1);
    write(trajectory, step, box, data, true);
    own.push_back(time);
  }

  std::vector<double>& checked(Index trajectory) {
    require(open, "FieldWriter", "the file is closed");
    require(0 <= trajectory && trajectory < spec.trajectories, "FieldWriter", "trajectory {} of {}",
            trajectory, spec.trajectories);
    return times[static_cast<std::size_t>(trajectory)];
  }

  void close() {
    if (!open) return;
    while (times.size() > 1 && times.back().empty()) times.pop_back();
    std::size_t steps = 0;
    for (const auto& t : times) steps = std::max(steps, t.size());
    resize(static_cast<Index>(times.size()), static_cast<Index>(steps));
    hdf5::Group root = file.root();
    write_well_times(root, spec, times);
    const std::string xdmf = make_xdmf();
    stored.clear();
    file.close();
    open = false;
    run_on_root(*comm, [&] {
      fs::resize_file(partial(),
                      fs::file_size(partial()));  // gives back reserved blocks that were not needed
      publish(partial(), path);
      if (!xdmf.empty()) write_text_atomically(fs::path(path).replace_extension(".xdmf"), xdmf);
    });
  }

  std::string make_xdmf() {
    if (!spec.xdmf || comm->rank() != 0) return "";
    for (const auto& t : times) {
      set.trajectories.push_back(
          {static_cast<Index>(t.size()), std::make_shared<const std::vector<double>>(t), {}, path});
    }
    std::vector<std::string> axes;
    for (const GridAxis& axis : spec.axes) axes.push_back(axis.name);
    std::vector<XdmfDataset> datasets;
    for (const StoredField& field : stored) {
      const std::string& location = field.dataset.path();
      const std::string name = location.substr(location.rfind('/') + 1);
      datasets.push_back(
          {location, field.dataset.shape(), field.time_varying,
           component_names(name, field.components.size(), static_cast<int>(axes.size()), axes)});
    }
    return xdmf_text(fs::path(path).filename().string(), set, datasets, spec.type);
  }

  // Leaves nothing of an unfinished file behind.
  void discard() {
    if (!open) return;
    stored.clear();
    file = {};
    std::error_code ec;
    if (comm->rank() == 0) fs::remove(partial(), ec);
  }
};

FieldWriter::FieldWriter(CommPtr comm, std::string path, FieldFileSpec spec)
    : impl_(std::make_unique<Impl>(std::move(comm), std::move(path), std::move(spec))) {
  impl_->create();
}

FieldWriter::~FieldWriter() = default;
FieldWriter::FieldWriter(FieldWriter&&) noexcept = default;

void FieldWriter::append(Index trajectory, double time, const Box& box, const float* data) {
  impl_->append(trajectory, time, box, data);
}

void FieldWriter::append(Index trajectory, double time, const Box& box, const double* data) {
  impl_->append(trajectory, time, box, data);
}

void FieldWriter::write_static(Index trajectory, const Box& box, const float* data) {
  impl_->checked(trajectory);
  impl_->write(trajectory, 0, box, data, false);
}

void FieldWriter::write_static(Index trajectory, const Box& box, const double* data) {
  impl_->checked(trajectory);
  impl_->write(trajectory, 0, box, data, false);
}

Index FieldWriter::steps(Index trajectory) const {
  return static_cast<Index>(impl_->checked(trajectory).size());
}

void FieldWriter::close() {
  impl_->close();
}

Provenance read_provenance(const std::string& path) {
  const hdf5::File file = hdf5::File::open(path);
  Provenance provenance;
  if (!file.root().has_group("provenance")) return provenance;
  const hdf5::Group group = file.root().group("provenance");
  for (const std::string& name : group.attribute_names()) provenance[name] = group.text(name).value_or("");
  return provenance;
}

}  // namespace tessera
