#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace tessera::hdf5 {

/// HDF5's hid_t; its headers stay out of ours.
using Id = std::int64_t;

/// Owner of an HDF5 identifier.
class Handle {
 public:
  using Closer = int (*)(Id);

  Handle() = default;
  Handle(Id id, Closer closer) : id_(id), closer_(closer) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, -1);
      closer_ = other.closer_;
    }
    return *this;
  }
  ~Handle() { reset(); }

  Id get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  /// Closes now; false if HDF5 reported a failure.
  bool reset();
  /// Forgets the identifier without closing it.
  void release() { id_ = -1; }

 private:
  Id id_ = -1;
  Closer closer_ = nullptr;
};

/// Debian's parallel HDF5 is not thread-safe: every call happens under this lock. It also switches off HDF5's
/// own printing.
class Lock {
 public:
  Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// The most specific text on HDF5's error stack, which is cleared; "" if there is none.
std::string take_error_text();

/// Throws Error(input_file) `[where] what: HDF5's own text`.
[[noreturn]] void fail_hdf5(const std::string& where, const std::string& what);

}  // namespace tessera::hdf5
