#pragma once

#include <list>
#include <string>
#include <utility>

#include "io/hdf5/file.hpp"

namespace tessera {

/// The few files read last stay open; in a collective source all ranks open and close the same ones in the
/// same order.
class FileCache {
 public:
  explicit FileCache(CommPtr comm) : comm_(std::move(comm)) {}

  const hdf5::File& get(const std::string& path) {
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      if (it->first != path) continue;
      open_.splice(open_.begin(), open_, it);
      return open_.front().second;
    }
    if (open_.size() == kMostOpen) open_.pop_back();
    open_.emplace_front(path, hdf5::File::open(path, comm_.get()));
    return open_.front().second;
  }
  Communicator* comm() const { return comm_.get(); }

 private:
  static constexpr std::size_t kMostOpen = 4;
  CommPtr comm_;
  std::list<std::pair<std::string, hdf5::File>> open_;
};

}  // namespace tessera
