#pragma once

#include <cstddef>
#include <memory>

namespace tessera {

/// Where a buffer lives. `device` is the memory of Kokkos' default execution space; on a host-only build both
/// are the same kind of memory, and code must still not dereference a device pointer outside a kernel.
enum class MemorySpace { host, device };

/// True if host code may dereference pointers to this space.
bool host_accessible(MemorySpace space);

/// A block of memory from the caching allocator of its space, 64-byte aligned, returned to the cache on
/// destruction. Copies share the block. The content of a new block is undefined.
class MemoryBlock {
 public:
  MemoryBlock() = default;
  MemoryBlock(MemorySpace space, std::size_t bytes);

  void* data() const { return block_.get(); }
  std::size_t bytes() const { return bytes_; }
  MemorySpace space() const { return space_; }
  /// Shared ownership of the block, for views into it.
  const std::shared_ptr<void>& handle() const { return block_; }

 private:
  std::shared_ptr<void> block_;
  std::size_t bytes_ = 0;
  MemorySpace space_ = MemorySpace::device;
};

/// What the allocator of a space has handed out, in bytes.
struct MemoryUse {
  std::size_t current = 0;        ///< in use now
  std::size_t peak = 0;           ///< most in use at once since the last reset
  std::size_t largest_block = 0;  ///< largest single block asked for since the last reset
  std::size_t reserved = 0;       ///< held from the system, cached blocks included
};

MemoryUse memory_use(MemorySpace space);
/// Starts a new high-water mark at the current use.
void reset_memory_peak(MemorySpace space);
/// Gives cached blocks back to the system.
void release_memory_cache();

/// Copies between any two spaces; complete on return.
void copy_bytes(void* to, MemorySpace to_space, const void* from, MemorySpace from_space, std::size_t bytes);
/// Sets bytes to zero; complete on return as far as later kernels are concerned.
void zero_bytes(void* data, MemorySpace space, std::size_t bytes);

}  // namespace tessera
