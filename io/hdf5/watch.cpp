#include "io/hdf5/watch.hpp"

#include <cstdio>
#include <filesystem>

#include <mpi.h>

#include "parallel/communicator_mpi.hpp"

namespace tessera::hdf5 {
namespace {

/// How long the ranks whose call hangs, too, may take to answer.
constexpr std::chrono::milliseconds kRollCall{2000};

void end_program(const Communicator& comm, ExitCode code, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "tessera: rank %d: %s\n", comm.world_rank(comm.rank()), text.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
}

}  // namespace

Watch::Watch(const FileState& file, std::string operation)
    : comm_(file.watch), path_(file.path), operation_(std::move(operation)) {
  if (comm_) thread_ = std::thread([this] { guard(); });
}

Watch::~Watch() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watch::guard() {
  std::unique_lock lock(mutex_);
  const auto limit = default_timeout();
  if (ended_.wait_for(lock, limit, [this] { return done_; })) return;
  std::string silent = "all ranks are in this call";
  try {
    comm_->set_timeout(kRollCall);
    comm_->barrier();
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::size_t at = text.find("; ");
    silent = at == std::string::npos ? text : text.substr(at + 2);
  }
  end_program(*comm_, ExitCode::communication,
              fmt::format("[{}] cannot {}: timed out after {:.3g} s; {}", path_, operation_,
                          std::chrono::duration<double>(limit).count(), silent));
}

void fail_write(const FileState& file, const std::string& where, const std::string& what) {
  try {
    fail_hdf5(where, what);
  } catch (const Error& error) {
    if (!file.watch) throw;
    try {
      file.watch->set_timeout(kRollCall);
      file.watch->barrier();
    } catch (const Error&) {
      std::error_code ec;
      std::filesystem::remove(file.path, ec);
      end_program(*file.watch, error.code(), error.what());
    }
    throw;
  }
}

}  // namespace tessera::hdf5
