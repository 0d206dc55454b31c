#include "solver/ops/norm/moments.hpp"

#include <string>

#include "solver/tensor/numeric.hpp"

namespace tessera::norm {
CommGroups groups_over(const Layout& layout, int first, int last) {
  if (!layout) return {};
  std::vector<std::string> names;
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    const Placement& p = layout.placement(a);
    if (p.is_shard() && p.dim >= first && p.dim < last && layout.mesh().axis_size(a) > 1) {
      names.emplace_back(layout.mesh().axis_name(a));
    }
  }
  if (names.empty()) return {};
  return {layout.mesh().sub(names).comm_ptr()};
}

void merge_over(const CommGroups& groups, const DeviceArray<Moment>& moments) {
  const Index n = moments.count();
  for (const CommPtr& comm : groups) {
    const Index ranks = comm->size();
    if (ranks == 1 || n == 0) continue;
    const MemoryBlock mine = copy_for(*comm, moments);
    const MemoryBlock all(comm->space(), mine.bytes() * static_cast<std::size_t>(ranks));
    const std::vector<Index> counts(static_cast<std::size_t>(ranks), 3 * n);
    comm->all_gather(mine.data(), all.data(), counts, DType::f64);
    const DeviceArray<Moment> gathered(ranks * n);
    copy_bytes(gathered.data(), MemorySpace::device, all.data(), comm->space(), all.bytes());
    Moment* out = moments.data();
    const Moment* in = gathered.data();
    for_each(
        "norm_merge", n, KOKKOS_LAMBDA(Index i) {
          Moment merged;
          for (Index r = 0; r < ranks; ++r) merged = merge(merged, in[r * n + i]);
          out[i] = merged;
        });
  }
}

void sum_over(const CommGroups& groups, const DeviceArray<double>& values) {
  for (const CommPtr& comm : groups) all_reduce(*comm, values, ReduceOp::sum);
}

}  // namespace tessera::norm
