#include "io/hdf5/handle.hpp"

#include <type_traits>

#include <hdf5.h>

#include "parallel/error.hpp"

namespace tessera::hdf5 {
namespace {

static_assert(std::is_same_v<hid_t, Id> && std::is_same_v<herr_t, int>);

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

herr_t keep_innermost(unsigned n, const H5E_error2_t* error, void* client) {
  auto& text = *static_cast<std::string*>(client);
  if (n == 0 && error->desc) text = error->desc;
  return 0;
}

}  // namespace

bool Handle::reset() {
  if (id_ < 0) return true;
  const Lock lock;
  return closer_(std::exchange(id_, -1)) >= 0;
}

Lock::Lock() : lock_(library_mutex()) {
  static const bool silenced = [] {
    return H5open() >= 0 && H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  }();
  (void)silenced;
}

std::string take_error_text() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text);
  H5Eclear2(H5E_DEFAULT);
  return text;
}

void fail_hdf5(const std::string& where, const std::string& what) {
  const std::string text = take_error_text();
  fail(ExitCode::input_file, where, "{}{}{}", what, text.empty() ? "" : ": ", text);
}

}  // namespace tessera::hdf5
