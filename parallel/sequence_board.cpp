#include "parallel/sequence_board.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tessera {
namespace {

constexpr int kSlots = 4096;

}  // namespace

SequenceBoard::SequenceBoard(MPI_Comm world) {
  constexpr MPI_Aint bytes = kSlots * static_cast<MPI_Aint>(sizeof(std::int64_t));
  const int unit = static_cast<int>(sizeof(std::int64_t));
  if (MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, world, &memory_, &window_) != MPI_SUCCESS) {
    window_ = MPI_WIN_NULL;
    return;
  }
  MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
  std::fill_n(memory_, kSlots, 0);
  for (int slot = kSlots - 1; slot >= 0; --slot) free_.push_back(slot);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  MPI_Win_sync(window_);
  MPI_Barrier(world);
}

void SequenceBoard::close() {
  if (!available()) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
  window_ = MPI_WIN_NULL;
}

int SequenceBoard::claim() {
  const std::lock_guard lock(mutex_);
  if (!available() || free_.empty()) return -1;
  const int slot = free_.back();
  free_.pop_back();
  store(slot, 0);
  return slot;
}

void SequenceBoard::release(int slot) {
  const std::lock_guard lock(mutex_);
  if (slot >= 0) free_.push_back(slot);
}

void SequenceBoard::store(int slot, std::int64_t sequence) {
  if (slot < 0 || !available()) return;
  std::atomic_ref<std::int64_t>(memory_[slot]).store(sequence, std::memory_order_release);
}

std::optional<std::int64_t> SequenceBoard::read(int world_rank, int slot) const {
  if (slot < 0 || !available()) return std::nullopt;
  // The request may outlive this call if the other side never answers, so the value does, too.
  auto value = std::make_shared<std::int64_t>(0);
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Rget(value.get(), 1, MPI_INT64_T, world_rank, slot, 1, MPI_INT64_T, window_, &request) !=
      MPI_SUCCESS) {
    return std::nullopt;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int done = 0; !done;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return std::nullopt;
    if (!done && std::chrono::steady_clock::now() > end) {
      unanswered_.push_back(std::move(value));
      return std::nullopt;
    }
  }
  return *value;
}

}  // namespace tessera
