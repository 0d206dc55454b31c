#pragma once

#include "parallel/device_messages.hpp"
#include "parallel/dtype.hpp"
#include "parallel/memory.hpp"

// Internal to solver/ops: scratch memory of the kernels.
namespace tessera {

/// Device memory for `count` values of T, undefined at first. Copies share it.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(Index count)
      : block_(MemorySpace::device, static_cast<std::size_t>(count) * sizeof(T)), count_(count) {}
  T* data() const { return static_cast<T*>(block_.data()); }
  Index count() const { return count_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }
  /// Shared ownership of the memory.
  const std::shared_ptr<void>& handle() const { return block_.handle(); }
  void zero() const { zero_bytes(data(), MemorySpace::device, bytes()); }

 private:
  MemoryBlock block_;
  Index count_ = 0;
};

template <typename T>
DeviceArray<T> device_copy(std::span<const T> values) {
  DeviceArray<T> array(static_cast<Index>(values.size()));
  copy_bytes(array.data(), MemorySpace::device, values.data(), MemorySpace::host, array.bytes());
  return array;
}

/// A copy of the array in the memory that the communicator takes.
template <typename T>
MemoryBlock copy_for(const Communicator& comm, const DeviceArray<T>& array) {
  MemoryBlock copy(comm.space(), array.bytes());
  copy_bytes(copy.data(), comm.space(), array.data(), MemorySpace::device, array.bytes());
  return copy;
}

/// Reduces each element over the ranks, in place.
template <typename T>
void all_reduce(Communicator& comm, const DeviceArray<T>& array, ReduceOp op) {
  if (comm.size() == 1 || array.count() == 0) return;
  device_all_reduce(comm, array.data(), array.count(), dtype_of<T>, op).wait();
}

}  // namespace tessera
