#include "solver/ops/device_array.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

/// x as (outer, extent, inner), summed along the middle; from the end backwards if `reverse`.
struct Scan {
  Index outer = 1, extent = 1, inner = 1;
  bool reverse = false;
};

/// total (outer, inner) = sums over the extent.
template <typename T>
void sum_parts(const Scan& n, double* total, const T* x) {
  for_each(
      "cumsum_total", n.outer * n.inner, KOKKOS_LAMBDA(Index r) {
        const T* row = x + r / n.inner * n.extent * n.inner + r % n.inner;
        double sum = 0;
        for (Index e = 0; e < n.extent; ++e) sum += load(row[e * n.inner]);
        total[r] = sum;
      });
}

/// start (outer, inner) = sum of the totals (parts, outer, inner) of the parts [first, last).
void sum_before(Index rows, double* start, const double* totals, Index first, Index last) {
  for_each(
      "cumsum_start", rows, KOKKOS_LAMBDA(Index r) {
        double sum = 0;
        for (Index p = first; p < last; ++p) sum += totals[p * rows + r];
        start[r] = sum;
      });
}

template <typename T>
void scan(const Scan& n, T* y, const T* x, const double* start) {
  for_each(
      "cumsum", n.outer * n.inner, KOKKOS_LAMBDA(Index r) {
        const Index first = r / n.inner * n.extent * n.inner + r % n.inner;
        double sum = start[r];
        for (Index e = 0; e < n.extent; ++e) {
          const Index at = first + (n.reverse ? n.extent - 1 - e : e) * n.inner;
          sum += load(x[at]);
          store(y[at], Compute<T>(sum));
        }
      });
}

/// What the parts of the axis before this one (behind it, if reversed) add up to.
template <typename T>
void sums_of_others(const Scan& n, Communicator& comm, const DeviceArray<double>& start, const T* x) {
  const Index rows = start.count();
  const DeviceArray<double> own(rows), all(rows * comm.size());
  sum_parts(n, own.data(), x);
  const std::vector<Index> counts(static_cast<std::size_t>(comm.size()), rows);
  device_all_gather(comm, own.data(), all.data(), counts, DType::f64);
  const Index me = comm.rank(), first = n.reverse ? me + 1 : 0, last = n.reverse ? comm.size() : me;
  sum_before(rows, start.data(), all.data(), first, last);
}

Tensor running_sums(const Tensor& x, int dim, bool reverse) {
  Scan n;
  n.reverse = reverse;
  const Shape& local = x.local_shape();
  for (int d = 0; d < local.size(); ++d) (d < dim ? n.outer : d == dim ? n.extent : n.inner) *= local[d];
  const Tensor y = Tensor::empty_like(x);
  const DeviceArray<double> start(n.outer * n.inner);
  start.zero();
  const int axis = x.is_shard() ? x.layout().mesh_axis_of(dim) : -1;
  dispatch_floating(x.dtype(), "cumsum", [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    if (axis >= 0 && start.count() > 0) {
      sums_of_others(n, x.layout().mesh().axis_comm(axis), start, x.data<T>());
    }
    scan(n, y.data<T>(), x.data<T>(), start.data());
  });
  return y;
}

const Operator& kCumsum = register_operator({.name = "cumsum",
                                             .signature = "cumsum(x, dim)",
                                             .family = "reductions",
                                             .cuts = {{"dim", Moves::reduction}, {"other"}},
                                             .rule = keep_rule()});

}  // namespace

Tensor cumsum(const Tensor& x_in, int dim_in) {
  const OperatorCall call(kCumsum, {x_in});
  const Tensor& x = call[0];
  const int dim = checked_dim(x, dim_in, "cumsum");
  Tensor y = running_sums(x, dim, false);
  record("cumsum", {x}, y, [dim](const Tensor& gy) { return Gradients{running_sums(gy, dim, true)}; });
  return y;
}

}  // namespace tessera
