#include "io/hdf5/watch.hpp"

#include <cstdio>

#include <mpi.h>

#include "parallel/communicator_mpi.hpp"

namespace tessera::hdf5 {
namespace {

/// How long the ranks whose call hangs, too, may take to answer.
constexpr std::chrono::milliseconds kRollCall{2000};

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
  std::fflush(stdout);
  std::fprintf(stderr, "tessera: rank %d: [%s] cannot %s: timed out after %.3g s; %s\n",
               comm_->world_rank(comm_->rank()), path_.c_str(), operation_.c_str(),
               std::chrono::duration<double>(limit).count(), silent.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::communication));
}

}  // namespace tessera::hdf5
