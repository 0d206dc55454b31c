#include "solver/ops/norm/moments.hpp"

#include <string>

#include "parallel/gather_messages.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera::norm {

CommGroups groups_over(const Layout& layout, int first, int last) {
  if (!layout) return {};
  std::vector<std::string> names;
  int ranks = 1;
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    const Placement& p = layout.placement(a);
    if (p.is_shard() && p.dim >= first && p.dim < last) {
      names.emplace_back(layout.mesh().axis_name(a));
      ranks *= layout.mesh().axis_size(a);
    }
  }
  if (ranks == 1) return {};
  return {layout.mesh().sub(names).comm_ptr()};
}

namespace {

/// The ranks' arrays, one after the other.
template <typename T>
DeviceArray<T> gathered(Communicator& comm, const DeviceArray<T>& mine) {
  static_assert(sizeof(T) % sizeof(double) == 0);
  const MemoryBlock own = copy_for(comm, mine);
  const MemoryBlock all(comm.space(), own.bytes() * static_cast<std::size_t>(comm.size()));
  gather_messages(comm, own.data(), all.data(), static_cast<Index>(own.bytes() / sizeof(double)), DType::f64);
  DeviceArray<T> result(mine.count() * comm.size());
  copy_bytes(result.data(), MemorySpace::device, all.data(), comm.space(), all.bytes());
  return result;
}

}  // namespace

void merge_over(const CommGroups& groups, const DeviceArray<Moment>& moments) {
  const Index n = moments.count();
  for (const CommPtr& comm : groups) {
    const Index ranks = comm->size();
    if (ranks == 1 || n == 0) continue;
    const DeviceArray<Moment> all = gathered(*comm, moments);
    Moment* out = moments.data();
    const Moment* in = all.data();
    for_each(
        "norm_merge", n, KOKKOS_LAMBDA(Index i) {
          Moment merged;
          for (Index r = 0; r < ranks; ++r) merged = merge(merged, in[r * n + i]);
          out[i] = merged;
        });
  }
}

void sum_over(const CommGroups& groups, const DeviceArray<double>& values) {
  const Index n = values.count();
  for (const CommPtr& comm : groups) {
    const Index ranks = comm->size();
    if (ranks == 1 || n == 0) continue;
    const DeviceArray<double> all = gathered(*comm, values);
    double* out = values.data();
    const double* in = all.data();
    for_each(
        "norm_sum", n, KOKKOS_LAMBDA(Index i) {
          double sum = 0;
          for (Index r = 0; r < ranks; ++r) sum += in[r * n + i];
          out[i] = sum;
        });
  }
}

}  // namespace tessera::norm
