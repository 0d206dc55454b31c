#include "solver/ops/neighborhood_attention/windows.hpp"

#include <algorithm>

namespace tessera::neighborhood {

Index Axis::first(Index i) const {
  // Points of i's residue class: residue, residue + dilation, ...; i is the place-th of `members`.
  const Index residue = i % dilation, place = i / dilation;
  const Index members = (n - residue + dilation - 1) / dilation;
  return residue + dilation * std::clamp<Index>(place - kernel / 2, 0, members - kernel);
}

Range Axis::needed(Range range) const {
  if (range.empty()) return {0, 0};
  Range needed{n, 0};
  for (Index i = range.lo; i < range.hi; ++i) {
    const Index lo = first(i);
    needed.lo = std::min(needed.lo, lo);
    needed.hi = std::max(needed.hi, lo + dilation * (kernel - 1) + 1);
  }
  return needed;
}

Windows make_windows(const Axis (&axes)[kAxes], const Range (&range)[kAxes]) {
  Windows w{};
  for (int a = 0; a < kAxes; ++a) {
    const Range needed = axes[a].needed(range[a]);
    w.queries[a] = range[a].size();
    w.region[a] = needed.size();
    w.kernel[a] = axes[a].kernel;
    w.dilation[a] = axes[a].dilation;
    std::vector<Index> first;
    std::vector<std::vector<Index>> queries(static_cast<std::size_t>(needed.size()));
    for (Index i = range[a].lo; i < range[a].hi; ++i) {
      first.push_back(axes[a].first(i) - needed.lo);
      for (Index j = 0; j < axes[a].kernel; ++j) {
        queries[static_cast<std::size_t>(first.back() + j * axes[a].dilation)].push_back(i - range[a].lo);
      }
    }
    std::vector<Index> from{0}, by;
    for (const auto& list : queries) {
      by.insert(by.end(), list.begin(), list.end());
      from.push_back(static_cast<Index>(by.size()));
    }
    w.first[a] = device_copy<Index>(first);
    w.host_first[a] = std::move(first);
    w.seen_from[a] = device_copy<Index>(from);
    w.seen_by[a] = device_copy<Index>(by);
  }
  return w;
}

}  // namespace tessera::neighborhood
