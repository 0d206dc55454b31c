#include "solver/ops/interpolate/interpolate.hpp"

#include <cmath>

#include "parallel/exchange_plan.hpp"
#include "parallel/recent_cache.hpp"
#include "solver/ops/layout_builder.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/taps/axis_taps.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {
namespace {

/// One axis of n inputs and `size` outputs.
struct Axis {
  Index n = 0;
  Index size = 0;
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false;

  /// Where output o lies among the inputs.
  double position(Index o) const {
    if (align_corners) return size > 1 ? double(o) * double(n - 1) / double(size - 1) : 0.0;
    return (double(o) + 0.5) * double(n) / double(size) - 0.5;
  }
  void add_nearest(AxisTaps& taps, Index o) const;
  void add_linear(AxisTaps& taps, Index o) const;
  void add_cubic(AxisTaps& taps, Index o) const;
  void add_area(AxisTaps& taps, Index o) const;
  /// The taps of these outputs, inputs counted from 0.
  AxisTaps taps_of(Range outputs) const;
};

void Axis::add_nearest(AxisTaps& taps, Index o) const {
  Index i = o;
  if (mode == InterpolateMode::nearest_exact) {
    i = static_cast<Index>(std::floor((float(o) + 0.5f) * (float(n) / float(size))));
  } else if (size == 2 * n) {
    i = o / 2;
  } else if (size != n) {
    i = static_cast<Index>(std::floor(float(o) * (float(n) / float(size))));
  }
  taps.add(std::min(i, n - 1), 1.0);
}

void Axis::add_linear(AxisTaps& taps, Index o) const {
  const double at = std::max(position(o), 0.0);
  const Index i = std::min(static_cast<Index>(at), n - 1);
  const double part = std::clamp(at - double(i), 0.0, 1.0);
  taps.add(i, i + 1 < n ? 1.0 - part : 1.0);
  if (i + 1 < n) taps.add(i + 1, part);
}

void Axis::add_cubic(AxisTaps& taps, Index o) const {
  constexpr double a = -0.75;
  const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };       // |d| <= 1
  const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };  // 1 < |d| < 2
  const double at = position(o), start = std::floor(at), part = at - start;
  const double weights[4] = {far(part + 1), near(part), near(1 - part), far(2 - part)};
  for (int t = 0; t < 4; ++t) {
    taps.add(std::clamp<Index>(static_cast<Index>(start) - 1 + t, 0, n - 1), weights[t]);
  }
}

void Axis::add_area(AxisTaps& taps, Index o) const {
  const Index lo = o * n / size, hi = ((o + 1) * n + size - 1) / size;
  for (Index i = lo; i < hi; ++i) taps.add(i, 1.0 / double(hi - lo));
}

AxisTaps Axis::taps_of(Range outputs) const {
  AxisTaps taps(n);
  for (Index o = outputs.lo; o < outputs.hi; ++o) {
    switch (mode) {
      case InterpolateMode::nearest:
      case InterpolateMode::nearest_exact:
        add_nearest(taps, o);
        break;
      case InterpolateMode::linear:
        add_linear(taps, o);
        break;
      case InterpolateMode::cubic:
        add_cubic(taps, o);
        break;
      default:
        add_area(taps, o);
        break;
    }
    taps.end_output();
  }
  return taps;
}

Partition proportional(const Partition& cuts, Index size) {
  std::vector<Index> scaled;
  const Index n = cuts.extent();
  for (Index c : cuts.cuts()) scaled.push_back(n == 0 ? 0 : (2 * c * size + n) / (2 * n));
  scaled.back() = size;
  return Partition(std::move(scaled));
}

struct Key {
  Shape shape, size;
  Layout layout;
  InterpolateMode mode;
  bool align_corners;
  bool operator==(const Key&) const = default;
};

/// What follows from shapes and layouts alone.
struct Rule {
  Shape shape;  // of the output
  Layout layout;
  ExchangePlan plan;           // own box to slab
  std::vector<AxisTaps> taps;  // from the slab; none on a rank without outputs
};

/// The outputs of a rank and, per grid axis, the inputs that they need.
Box slab_of(const Key& key, const Box& outputs) {
  Box slab = outputs;
  for (int a = 0; a < key.size.size(); ++a) {
    const Axis axis{key.shape[a + 1], key.size[a], key.mode, key.align_corners};
    slab[a + 1] = axis.taps_of(outputs[a + 1]).needed();
  }
  return slab;
}

NeedMap need_of_slab(const Box& slab) {
  NeedMap need;
  for (Range r : slab) need.push_back(slab.is_empty() ? AxisMap{r, {}} : map_identity(r));
  return need;
}

Layout output_layout(const Layout& from, const Shape& shape, int axes) {
  if (!from) return {};
  LayoutBuilder builder(from.mesh(), shape);
  for (int m = 0; m < from.mesh().axes(); ++m) {
    const Placement& p = from.placement(m);
    const bool on_grid = p.is_shard() && p.dim >= 1 && p.dim <= axes;
    if (on_grid) builder.shard(m, p.dim, proportional(from.partition(m), shape[p.dim]));
    if (p.is_shard() && !on_grid) builder.like(from, m);
  }
  return builder.build();
}

std::shared_ptr<const Rule> make_rule(const Key& key) {
  Shape shape = key.shape;
  for (int a = 0; a < key.size.size(); ++a) shape[a + 1] = key.size[a];
  const Layout layout = output_layout(key.layout, shape, key.size.size());
  const auto outputs = [&](int rank) { return layout ? layout.box(rank) : Box::whole(shape); };
  const auto need = [&](int rank) { return need_of_slab(slab_of(key, outputs(rank))); };
  const int rank = layout ? layout.mesh().rank() : 0;
  const Box own = outputs(rank), slab = slab_of(key, own);
  std::vector<AxisTaps> taps;
  for (int a = 0; a < key.size.size() && !own.is_empty(); ++a) {
    const Axis axis{key.shape[a + 1], key.size[a], key.mode, key.align_corners};
    taps.push_back(axis.taps_of(own[a + 1]).shifted(slab[a + 1].lo, slab[a + 1].size()));
  }
  return std::make_shared<const Rule>(Rule{
      shape, layout, key.layout ? ExchangePlan(key.layout, need) : ExchangePlan(key.shape, need(0)), taps});
}

std::shared_ptr<const Rule> rule_of(const Key& key) {
  static RecentCache<Key, std::shared_ptr<const Rule>> cache(128);
  return cache.get(key, [&] { return make_rule(key); });
}

void check(const Tensor& x, const Shape& size, InterpolateMode mode, bool align_corners) {
  const bool fits = x.ndim() >= 3 && size.size() == x.ndim() - 2;
  bool positive = fits;
  for (int a = 0; positive && a < size.size(); ++a) positive = size[a] > 0 && x.dim(a + 1) > 0;
  if (!positive) {
    fail(ExitCode::usage, "interpolate",
         "found size {} of shape {}, expected one positive number per grid "
         "axis of (batch, *grid, channels)",
         to_string(size), to_string(x.shape()));
  }
  check_floating("interpolate", x);
  if (align_corners && mode != InterpolateMode::linear && mode != InterpolateMode::cubic) {
    fail(ExitCode::usage, "interpolate", "align_corners is for the linear and cubic modes only");
  }
}

const Operator& kInterpolate = register_operator({.name = "interpolate",
                                                  .signature = "interpolate(x, size, mode, align_corners)",
                                                  .family = "windows",
                                                  .cuts = {{"batch"}, {"grid", Moves::halo}, {"channels"}},
                                                  .rule = keep_rule()});

}  // namespace

Tensor interpolate(const Tensor& x_in, const Shape& size, InterpolateMode mode, bool align_corners) {
  check(x_in, size, mode, align_corners);
  const OperatorCall call(kInterpolate, {x_in});
  const Tensor& x = call[0];
  const auto rule = rule_of({x.shape(), size, x.layout(), mode, align_corners});
  Tensor y = Tensor::empty(rule->layout, rule->shape, x.dtype());
  const Tensor slab = Tensor::empty(rule->plan.destination_shape(), x.dtype());
  rule->plan.forward(x.raw(), slab.raw(), x.dtype());
  if (!rule->taps.empty()) y.copy_from(apply_taps(slab, rule->taps));
  record("interpolate", {x}, y, [rule, from = x.layout(), from_shape = x.shape()](const Tensor& gy) {
    Tensor slab_gradient = Tensor::empty(rule->plan.destination_shape(), gy.dtype());
    if (!rule->taps.empty()) {
      std::vector<AxisTaps> back;
      for (const AxisTaps& axis : rule->taps) back.push_back(axis.transposed());
      slab_gradient = apply_taps(gy.as_plain(), back);
    }
    const Tensor gx = Tensor::zeros(from, from_shape, gy.dtype());
    rule->plan.adjoint(slab_gradient.raw(), gx.raw(), gy.dtype());
    return Gradients{gx};
  });
  return y;
}

}  // namespace tessera
