#pragma once

#include <cstddef>
#include <list>
#include <utility>

namespace tessera {

/// The values made last for some keys, at most `most` of them. For plans and compiled kernels, of which a
/// program repeats a few dozen; keys are compared one by one, most recently used first.
template <typename Key, typename Value>
class RecentCache {
 public:
  explicit RecentCache(std::size_t most) : most_(most) {}

  /// The value of `key`, made by make() if it is not there. The reference holds until the next call.
  template <typename Make>
  const Value& get(const Key& key, const Make& make) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (!(it->first == key)) continue;
      entries_.splice(entries_.begin(), entries_, it);
      return entries_.front().second;
    }
    entries_.emplace_front(key, make());
    if (entries_.size() > most_) entries_.pop_back();
    return entries_.front().second;
  }

 private:
  std::size_t most_;
  std::list<std::pair<Key, Value>> entries_;
};

}  // namespace tessera
