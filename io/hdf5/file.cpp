#include "io/hdf5/file.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>

#include <hdf5.h>
#include <mpi.h>

#include "io/agree.hpp"
#include "io/hdf5/file_state.hpp"
#include "io/hdf5/watch.hpp"

namespace tessera::hdf5 {
namespace {

std::atomic<bool> abandoned{false};

Handle access_list(Communicator* comm, bool reading) {
  Handle list(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fclose_degree(list.get(), H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 10, 7)
  if (reading) H5Pset_file_locking(list.get(), false, true);  // read-only file systems refuse locks
#endif
  if (comm) {
    const MPI_Comm mpi = *static_cast<MPI_Comm*>(comm->native_handle());
    if (H5Pset_fapl_mpio(list.get(), mpi, MPI_INFO_NULL) < 0)
      fail_hdf5("hdf5", "cannot open files in parallel");
    H5Pset_all_coll_metadata_ops(list.get(), false);
    H5Pset_coll_metadata_write(list.get(), true);
  }
  return list;
}

// Everything that can be wrong with a file as such.
void check_readable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ec;
  const auto status = fs::status(path, ec);
  if (!fs::exists(status)) fail(ExitCode::input_file, path, "no such file");
  if (fs::is_directory(status)) fail(ExitCode::input_file, path, "found a folder, expected an HDF5 file");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(ExitCode::input_file, path, "cannot open: {}", std::strerror(errno));
  char magic[8] = {};
  stream.read(magic, sizeof magic);
  if (stream.gcount() == 0) fail(ExitCode::input_file, path, "the file is empty, expected HDF5");
  const Lock lock;
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    take_error_text();
    if (std::strncmp(magic, "CDF", 3) == 0) {
      fail(ExitCode::input_file, path,
           "found a classic NetCDF file, expected HDF5; convert it: nccopy -k nc4 in out");
    }
    fail(ExitCode::input_file, path, "not an HDF5 file");
  }
  const Handle list = access_list(nullptr, true);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, list.get()), H5Fclose);
  if (!file) fail_hdf5(path, "the file is damaged or truncated");
}

}  // namespace

bool files_abandoned() {
  return abandoned;
}
void abandon_files() {
  abandoned = true;
}

FileState::~FileState() {
  if (!parallel || std::uncaught_exceptions() == 0 || !id) return;
  id.release();
  abandoned = true;
}

File File::open(const std::string& path, Communicator* comm) {
  const bool parallel = comm && comm->size() > 1;
  if (parallel) {
    run_on_root(*comm, [&] { check_readable(path); });
  } else {
    check_readable(path);
  }
  File file;
  file.state_ = std::make_shared<FileState>(path, parallel);
  if (parallel) file.state_->watch = comm->split(0, comm->rank(), "file");
  const Lock lock;
  const Watch watch(*file.state_, "open");
  const Handle list = access_list(parallel ? comm : nullptr, true);
  file.state_->id = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, list.get()), H5Fclose);
  if (!file.state_->id) fail_hdf5(path, "cannot open");
  return file;
}

File File::create(const std::string& path, Communicator* comm) {
  const bool parallel = comm && comm->size() > 1;
  auto check_folder = [&] {
    const auto folder = std::filesystem::absolute(path).parent_path();
    std::error_code ec;
    if (!std::filesystem::is_directory(folder, ec))
      fail(ExitCode::input_file, path, "no folder '{}'", folder.string());
    std::ofstream probe(path, std::ios::binary);
    if (!probe) fail(ExitCode::input_file, path, "cannot create: {}", std::strerror(errno));
  };
  if (parallel) {
    run_on_root(*comm, check_folder);
  } else {
    check_folder();
  }
  File file;
  file.state_ = std::make_shared<FileState>(path, parallel);
  if (parallel) file.state_->watch = comm->split(0, comm->rank(), "file");
  const Lock lock;
  const Watch watch(*file.state_, "create");
  const Handle list = access_list(parallel ? comm : nullptr, false);
  file.state_->id = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, list.get()), H5Fclose);
  if (!file.state_->id) fail_hdf5(path, "cannot create");
  return file;
}

Group File::root() const {
  require(state_ && state_->id, "hdf5", "the file is closed");
  const Lock lock;
  Handle id(H5Gopen2(state_->id.get(), "/", H5P_DEFAULT), H5Gclose);
  if (!id) fail_hdf5(state_->path, "cannot open the root group");
  return Group(state_, std::move(id), "/");
}

const std::string& File::path() const {
  return state_->path;
}
bool File::parallel() const {
  return state_->parallel;
}

void File::close() {
  if (!state_) return;
  const std::shared_ptr<FileState> state = std::move(state_);
  const Watch watch(*state, "close");
  if (!state->id.reset()) fail_write(*state, state->path, "cannot close, the file is incomplete");
}

}  // namespace tessera::hdf5
