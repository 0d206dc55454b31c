// halo, ring, reduce: what moves between ranks, against bare messages of the same size.
#include <algorithm>

#include "app/bench/kinds.hpp"
#include "parallel/exchange_plan.hpp"
#include "parallel/gradient_reducer.hpp"
#include "parallel/ring.hpp"
#include "solver/tensor/tensor.hpp"

namespace tessera::bench {
namespace {

constexpr Index kKiB = 1024;

/// The rows before and after `own` that other ranks have: the buffer spans them and the own rows, which stay
/// where they are.
AxisMap faces_around(Range own, Index rows) {
  AxisMap map{{std::max<Index>(own.lo - 1, 0), std::min(own.hi + 1, rows)}, {}};
  if (map.range.lo < own.lo) map.segments.push_back({map.range.lo, 1, map.range.lo, 1});
  if (own.hi < map.range.hi) map.segments.push_back({own.hi, 1, own.hi, 1});
  return map;
}

}  // namespace

Work make_halo(const Place& place, const Case& c) {
  constexpr Index rows_of_rank = 8, channels = 64;
  const Index bytes = c.size * kKiB, columns = bytes / (channels * static_cast<Index>(sizeof(float)));
  const Index rows = rows_of_rank * place.group->size();
  const Layout layout = cut_over(place.group, {1, rows, columns, channels}, 1, c.uneven);
  const ExchangePlan plan(layout, [&](int rank) -> NeedMap {
    return {map_identity({0, 1}), faces_around(layout.range(rank, 1), rows), map_identity({0, columns}),
            map_identity({0, channels})};
  });
  const Tensor from = Tensor::zeros(layout), to = Tensor::zeros(plan.destination_shape());
  Work work;
  work.run = [=] { plan.forward(from.raw(), to.raw(), DType::f32); };
  work.amount = static_cast<double>(bytes) * messages_of(Pattern::neighbours, place.group->size());
  work.limit_name = "bare messages";
  work.limit = [bytes, &limits = place.limits] { return limits.messages(bytes, Pattern::neighbours); };
  return work;
}

Work make_ring(const Place& place, const Case& c) {
  const int size = place.group->size();
  const Partition cuts = cut_points(c.size * kKiB / static_cast<Index>(sizeof(float)) * size, size, c.uneven);
  std::vector<Index> elements;
  for (int r = 0; r < size; ++r) elements.push_back(cuts.range(r).size());
  const Tensor own = Tensor::zeros(Shape{elements[static_cast<std::size_t>(place.group->rank())]});
  RingRotation ring(place.group, elements, DType::f32);
  Work work;
  work.run = [=]() mutable {
    ring.start(own.raw());
    for (int s = 0; s < size; ++s) {
      ring.prefetch();
      ring.advance();
    }
  };
  const Index bytes = c.size * kKiB;
  work.amount = static_cast<double>(bytes) * size * (size - 1);
  work.limit_name = "bare messages";
  work.limit = [bytes, &limits = place.limits] { return limits.messages(bytes, Pattern::ring); };
  return work;
}

Work make_reduce(const Place& place, const Case& c) {
  constexpr Index parameter_kib = 256;
  const auto width = static_cast<Index>(size_of(c.precision));
  std::vector<GradientReducer::Parameter> parameters;
  for (Index left = c.size; left > 0; left -= parameter_kib) {
    const Index elements = std::min(left, parameter_kib) * kKiB / width;
    parameters.push_back({"p" + std::to_string(parameters.size()), elements, c.precision});
  }
  const int count = static_cast<int>(parameters.size()), size = place.group->size();
  const auto reducer = std::make_shared<GradientReducer>(place.group, size, std::move(parameters));
  Work work;
  work.run = [reducer, count] {
    reducer->zero();
    for (int i = count; i-- > 0;) reducer->mark_ready(i);
    reducer->finish();
  };
  // Each rank has to send away all but its own share, and its reduced share to everyone.
  const Index bytes = c.size * kKiB;
  work.amount = 2.0 * static_cast<double>(bytes) * (size - 1);
  work.limit_name = "bare messages";
  work.limit = [share = std::max<Index>(bytes / size, 1), &limits = place.limits] {
    return limits.messages(share, Pattern::ring);
  };
  return work;
}

}  // namespace tessera::bench
