#include "solver/ops/pad/pad.hpp"

#include "parallel/exchange_plan.hpp"
#include "parallel/recent_cache.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

Boundary boundary_of(PadMode mode) {
  switch (mode) {
    case PadMode::reflect:
      return Boundary::reflect;
    case PadMode::replicate:
      return Boundary::replicate;
    case PadMode::periodic:
      return Boundary::periodic;
    default:
      return Boundary::zero;
  }
}

/// Cut points after `lo` more elements below, `extent` in total; parts without elements stay so.
Partition shifted(const Partition& cuts, Index lo, Index extent) {
  std::vector<Index> moved;
  for (Index c : cuts.cuts()) moved.push_back(c == 0 ? 0 : std::clamp<Index>(c + lo, 0, extent));
  for (std::size_t p = moved.size(); p-- > 0 && cuts.cuts()[p] == cuts.extent();) moved[p] = extent;
  moved.front() = 0;
  return Partition(std::move(moved));
}

/// `from` with every dimension d of shape[d] elements and its cut points moved by lo[d].
Layout shifted(const Layout& from, const Shape& lo, const Shape& shape) {
  if (!from) return {};
  Layout moved = from;
  for (int d = 0; d < shape.size(); ++d) {
    moved =
        moved.with_extent(d, shape[d], [&](const Partition& cuts) { return shifted(cuts, lo[d], shape[d]); });
  }
  return moved;
}

/// What `box` needs if its index i on dimension d is index i - lo[d] of an axis of source[d] elements.
NeedMap need_at(const Box& box, const Shape& lo, const Shape& source, Boundary boundary) {
  const bool nothing = box.is_empty();
  NeedMap maps;
  for (int d = 0; d < box.size(); ++d) {
    const Range range{box[d].lo - lo[d], box[d].hi - lo[d]};
    const bool inside = range.lo >= 0 && range.hi <= source[d];
    maps.push_back(nothing ? AxisMap{range, {}}
                           : map_with_boundary(range, source[d], inside ? Boundary::zero : boundary));
  }
  return maps;
}

struct Key {
  Layout from, to;
  Shape from_shape, to_shape, lo;
  Boundary boundary = Boundary::zero;
  bool operator==(const Key&) const = default;
};

ExchangePlan plan_of(const Key& key) {
  static RecentCache<Key, ExchangePlan> cache(256);
  const auto need = [&key](const Box& box) { return need_at(box, key.lo, key.from_shape, key.boundary); };
  return cache.get(key, [&] {
    if (!key.from) return ExchangePlan(key.from_shape, need(Box::whole(key.to_shape)));
    return ExchangePlan(key.from, [&](int rank) { return need(key.to.box(rank)); });
  });
}

Tensor filled(const Layout& layout, const Shape& shape, DType type, double value) {
  if (!layout) return Tensor::full(shape, value, type);
  return Tensor::full(layout.local_shape(), value, type).with_layout(layout);
}

Shape negated(const Shape& lo) {
  Shape minus;
  for (Index n : lo) minus.push_back(-n);
  return minus;
}

/// Element i of the result is element i - lo of x, and `value` where there is none; `layout` is that of the
/// result.
Tensor moved(const Tensor& x, const Shape& lo, const Layout& layout, const Shape& shape, double value) {
  const ExchangePlan plan = plan_of({x.layout(), layout, x.shape(), shape, lo, Boundary::zero});
  Tensor y = filled(layout, shape, x.dtype(), value);
  plan.forward(x.raw(), y.raw(), x.dtype());
  return y;
}

/// The shape after padding; throws where the pads do not fit.
Shape padded_shape(const Tensor& x, const Shape& lo, const Shape& hi, PadMode mode) {
  if (lo.size() != x.ndim() || hi.size() != x.ndim()) {
    fail(ExitCode::usage, "pad", "found {} and {} pads for shape {}", lo.size(), hi.size(),
         to_string(x.shape()));
  }
  Shape shape = x.shape();
  for (int d = 0; d < x.ndim(); ++d) {
    const Index n = shape[d];
    shape[d] += lo[d] + hi[d];
    const bool reaches = mode == PadMode::constant || (lo[d] <= 0 && hi[d] <= 0) ||
                         (mode == PadMode::reflect ? std::max(lo[d], hi[d]) < n : n > 0);
    if (shape[d] < 0 || !reaches) {
      fail(ExitCode::usage, "pad", "found pads {} and {} of dimension {}, which has {} elements", lo[d],
           hi[d], d, n);
    }
  }
  return shape;
}

const Operator& kPad = register_operator({.name = "pad",
                                          .signature = "pad(x, lo, hi, mode, value)",
                                          .family = "windows",
                                          .cuts = {{"padded", Moves::exchange}, {"other"}},
                                          .rule = keep_rule()});
const Operator& kCrop = register_operator({.name = "crop",
                                           .signature = "crop(x, box, target)",
                                           .family = "windows",
                                           .cuts = {{"any"}},
                                           .rule = keep_rule()});

}  // namespace

Tensor pad(const Tensor& x_in, const Shape& lo, const Shape& hi, PadMode mode, double value) {
  const OperatorCall call(kPad, {x_in});
  const Tensor& x = call[0];
  const Shape shape = padded_shape(x, lo, hi, mode);
  const Layout layout = shifted(x.layout(), lo, shape);
  if (mode == PadMode::constant) {
    Tensor y = moved(x, lo, layout, shape, value);
    record("pad", {x}, y, [lo, from = x.layout(), from_shape = x.shape()](const Tensor& gy) {
      return Gradients{moved(gy, negated(lo), from, from_shape, 0)};
    });
    return y;
  }
  const ExchangePlan plan = plan_of({x.layout(), layout, x.shape(), shape, lo, boundary_of(mode)});
  Tensor y = Tensor::empty(layout, shape, x.dtype());
  plan.forward(x.raw(), y.raw(), x.dtype());
  record("pad", {x}, y, [plan, from = x.layout(), from_shape = x.shape()](const Tensor& gy) {
    const Tensor gx = filled(from, from_shape, gy.dtype(), 0);
    plan.adjoint(gy.raw(), gx.raw(), gy.dtype());
    return Gradients{gx};
  });
  return y;
}

Tensor crop(const Tensor& x_in, const Box& box, const Layout& target) {
  const OperatorCall call(kCrop, {x_in});
  const Tensor& x = call[0];
  Shape lo;
  for (int d = 0; d < box.size(); ++d) {
    lo.push_back(-box[d].lo);
    if (box.size() != x.ndim() || box[d].lo < 0 || box[d].hi > x.dim(d) || box[d].lo > box[d].hi) {
      fail(ExitCode::usage, "crop", "found box {} of shape {}", to_string(box), to_string(x.shape()));
    }
  }
  if (target) {
    require(x.is_shard() && x.layout().mesh() == target.mesh() && target.shape() == box.shape() &&
                !target.has_partial(),
            "crop", "found {} and target {}", describe(x), to_string(target));
  }
  const Layout layout = target ? target : shifted(x.layout(), lo, box.shape());
  Tensor y = moved(x, lo, layout, box.shape(), 0);
  // The gradient goes back by a plan of its own, not by the adjoint: each element of x takes its value from
  // one holder of the cotangent, which a replicated target has several of.
  record("crop", {x}, y, [lo, from = x.layout(), from_shape = x.shape()](const Tensor& gy) {
    return Gradients{moved(gy, negated(lo), from, from_shape, 0)};
  });
  return y;
}

}  // namespace tessera
