#pragma once

#include <cstring>
#include <vector>

#include "parallel/bfloat16.hpp"
#include "parallel/memory.hpp"

namespace tessera::testing {

/// Device memory that is filled from and read back to a std::vector.
template <typename T>
class DeviceVector {
 public:
  explicit DeviceVector(const std::vector<T>& values)
      : size_(values.size()), block_(MemorySpace::device, size_ * sizeof(T)) {
    copy_bytes(block_.data(), MemorySpace::device, values.data(), MemorySpace::host, block_.bytes());
  }

  T* data() const { return static_cast<T*>(block_.data()); }
  std::vector<T> to_host() const { return read(block_.data(), size_); }

  static std::vector<T> read(const void* device, std::size_t size) {
    std::vector<T> values(size);
    copy_bytes(values.data(), MemorySpace::host, device, MemorySpace::device, size * sizeof(T));
    return values;
  }

 private:
  std::size_t size_;
  MemoryBlock block_;
};

}  // namespace tessera::testing
