#pragma once

#include "io/strided_copy.hpp"
#include "parallel/box.hpp"

namespace tessera {

/// Calls visit(offset_in_a, offset_in_b, elements) for every run of elements of `common` that is contiguous
/// in two row-major buffers which hold the boxes `a` and `b` of one index space; `common` lies in both. Runs
/// come in ascending order.
template <typename Visit>
void for_each_run(const Box& common, const Box& a, const Box& b, const Visit& visit) {
  if (common.is_empty()) return;
  const Shape stride_a = strides_of(a.shape()), stride_b = strides_of(b.shape());
  // Trailing dimensions that span both boxes join into one run.
  int inner = common.size();
  Index run = 1;
  while (inner > 0) {
    const int d = inner - 1;
    run *= common[d].size();
    --inner;
    if (!(common[d] == a[d] && common[d] == b[d])) break;
  }
  Shape index;
  for (int d = 0; d < inner; ++d) index.push_back(common[d].lo);
  while (true) {
    Index at_a = 0, at_b = 0;
    for (int d = 0; d < common.size(); ++d) {
      const Index i = d < inner ? index[d] : common[d].lo;
      at_a += (i - a[d].lo) * stride_a[d];
      at_b += (i - b[d].lo) * stride_b[d];
    }
    visit(at_a, at_b, run);
    int d = inner - 1;
    while (d >= 0 && ++index[d] == common[d].hi) {
      index[d] = common[d].lo;
      --d;
    }
    if (d < 0) return;
  }
}

}  // namespace tessera
