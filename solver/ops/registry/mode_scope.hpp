#pragma once

#include <utility>

namespace tessera {

/// While it lives, operators of this thread work in another mode. Nested scopes end in reverse order.
template <typename Mode>
class ModeScope {
 public:
  explicit ModeScope(Mode mode) : outer_(std::exchange(mode_, mode)) {}
  ~ModeScope() { mode_ = outer_; }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

  /// The mode of this thread: at first the enumeration's first.
  static Mode current() { return mode_; }

 private:
  static inline thread_local Mode mode_{};
  Mode outer_;
};

}  // namespace tessera
