#include "parallel/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include "parallel/error.hpp"

namespace tessera {
namespace {

using DeviceSpace = Kokkos::DefaultExecutionSpace::memory_space;
constexpr bool kOneSpace = std::is_same_v<DeviceSpace, Kokkos::HostSpace>;

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Sizes that share cached blocks: eight steps between powers of two, so that at most an eighth is wasted.
std::size_t size_class(std::size_t bytes) {
  const std::size_t power = std::bit_floor(std::max(bytes, 8 * kAlignment));
  const std::size_t step = power / 8;
  return (bytes + step - 1) / step * step;
}

void* system_allocate(MemorySpace space, std::size_t bytes) {
  if (space == MemorySpace::device && !kOneSpace) {
    try {
      return Kokkos::kokkos_malloc<DeviceSpace>("tessera", bytes);
    } catch (const std::exception&) {
      return nullptr;
    }
  }
  const bool large = bytes >= kHugePage;
  void* data = nullptr;
  if (posix_memalign(&data, large ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  if (large) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void system_free(MemorySpace space, void* data) {
  if (space == MemorySpace::device && !kOneSpace) {
    // After Kokkos::finalize the driver has already taken the memory back.
    if (Kokkos::is_initialized()) Kokkos::kokkos_free<DeviceSpace>(data);
  } else {
    std::free(data);
  }
}

/// The caching allocator of one space. Blocks keep it alive, so they may outlive the end of main().
class Pool {
 public:
  explicit Pool(MemorySpace space) : space_(space) {}
  ~Pool() { release(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void* allocate(std::size_t bytes) {
    const std::size_t size = size_class(bytes);
    const std::lock_guard lock(mutex_);
    void* data = take_cached(size);
    if (!data) data = system_allocate(space_, size);
    if (!data) {
      release_locked();
      data = system_allocate(space_, size);
    }
    if (!data) {
      fail(ExitCode::internal, "memory", "{} bytes asked for with {} in use: out of memory", bytes,
           use_.current);
    }
    use_.reserved = cached_bytes_ + (in_use_bytes_ += size);
    use_.current += bytes;
    use_.peak = std::max(use_.peak, use_.current);
    use_.largest_block = std::max(use_.largest_block, bytes);
    return data;
  }

  void give_back(void* data, std::size_t bytes) {
    const std::size_t size = size_class(bytes);
    const std::lock_guard lock(mutex_);
    cached_.emplace(size, data);
    cached_bytes_ += size;
    in_use_bytes_ -= size;
    use_.current -= bytes;
  }

  void release() {
    const std::lock_guard lock(mutex_);
    release_locked();
  }

  MemoryUse use() const {
    const std::lock_guard lock(mutex_);
    return use_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    use_.peak = use_.current;
    use_.largest_block = 0;
  }

 private:
  void* take_cached(std::size_t size) {
    const auto found = cached_.find(size);
    if (found == cached_.end()) return nullptr;
    void* data = found->second;
    cached_.erase(found);
    cached_bytes_ -= size;
    return data;
  }

  void release_locked() {
    for (const auto& [size, data] : cached_) system_free(space_, data);
    cached_.clear();
    cached_bytes_ = 0;
    use_.reserved = in_use_bytes_;
  }

  const MemorySpace space_;
  mutable std::mutex mutex_;
  std::multimap<std::size_t, void*> cached_;
  std::size_t cached_bytes_ = 0;
  std::size_t in_use_bytes_ = 0;  // in whole size classes
  MemoryUse use_;
};

const std::shared_ptr<Pool>& pool(MemorySpace space) {
  static const std::shared_ptr<Pool> host = std::make_shared<Pool>(MemorySpace::host);
  static const std::shared_ptr<Pool> device = std::make_shared<Pool>(MemorySpace::device);
  return space == MemorySpace::host ? host : device;
}

template <typename Space>
using Bytes = Kokkos::View<char*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
template <typename Space>
using ConstBytes = Kokkos::View<const char*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

template <typename To, typename From>
void deep_copy_bytes(void* to, const void* from, std::size_t bytes) {
  Kokkos::deep_copy(Bytes<To>(static_cast<char*>(to), bytes),
                    ConstBytes<From>(static_cast<const char*>(from), bytes));
}

}  // namespace

bool host_accessible(MemorySpace space) {
  return space == MemorySpace::host || kOneSpace;
}

MemoryBlock::MemoryBlock(MemorySpace space, std::size_t bytes) : bytes_(bytes), space_(space) {
  if (bytes == 0) return;
  const std::shared_ptr<Pool> owner = pool(space);
  block_ = std::shared_ptr<void>(owner->allocate(bytes),
                                 [owner, bytes](void* data) { owner->give_back(data, bytes); });
}

MemoryUse memory_use(MemorySpace space) {
  return pool(space)->use();
}

void reset_memory_peak(MemorySpace space) {
  pool(space)->reset_peak();
}

void release_memory_cache() {
  pool(MemorySpace::host)->release();
  pool(MemorySpace::device)->release();
}

void copy_bytes(void* to, MemorySpace to_space, const void* from, MemorySpace from_space, std::size_t bytes) {
  if (bytes == 0) return;
  if constexpr (kOneSpace) {
    if (to_space == MemorySpace::device || from_space == MemorySpace::device) Kokkos::fence();
    std::memcpy(to, from, bytes);
  } else if (to_space == MemorySpace::host && from_space == MemorySpace::host) {
    std::memcpy(to, from, bytes);
  } else if (to_space == MemorySpace::host) {
    deep_copy_bytes<Kokkos::HostSpace, DeviceSpace>(to, from, bytes);
  } else if (from_space == MemorySpace::host) {
    deep_copy_bytes<DeviceSpace, Kokkos::HostSpace>(to, from, bytes);
  } else {
    deep_copy_bytes<DeviceSpace, DeviceSpace>(to, from, bytes);
  }
}

void zero_bytes(void* data, MemorySpace space, std::size_t bytes) {
  if (bytes == 0) return;
  if (host_accessible(space)) {
    if (space == MemorySpace::device) Kokkos::fence();
    std::memset(data, 0, bytes);
  } else {
    Kokkos::deep_copy(Kokkos::DefaultExecutionSpace(), Bytes<DeviceSpace>(static_cast<char*>(data), bytes),
                      char{0});
  }
}

}  // namespace tessera
