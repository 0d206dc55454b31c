#include "solver/ops/window/windowed_input.hpp"

#include <optional>

#include "parallel/exchange_plan.hpp"
#include "parallel/recent_cache.hpp"

namespace tessera {
namespace {

struct Key {
  Shape shape;
  Layout layout;
  Window window;
  Index out_channels = 0;
  Edges edges = Edges::outside;

  bool operator==(const Key&) const = default;
};

Range whole(Index n) {
  return {0, n};
}

}  // namespace

struct WindowedInput::Impl {
  Key key;
  Shape output_shape, slab_shape, local_output_shape;
  Layout output_layout;
  Box slab, outputs;                 // (batch, *grid, channels) of this rank
  std::optional<ExchangePlan> plan;  // absent where the slab is the local box on a plain tensor
  bool shares_input = false;

  explicit Impl(const Key& k) : key(k) {
    output_shape = window_output_shape(key.shape, key.window, key.out_channels);
    output_layout = window_output_layout(key.layout, key.window, key.out_channels);
    const int rank = key.layout ? key.layout.mesh().rank() : 0;
    slab = slab_box(rank);
    outputs = output_layout ? output_layout.local_box() : Box::whole(output_shape);
    slab_shape = slab.shape();
    local_output_shape = outputs.shape();

    const bool usable = own_box_serves();
    if (key.layout) {
      plan.emplace(key.layout, [this](int r) { return need(r); });
      shares_input = usable && plan->is_local();
    } else {
      shares_input = usable;
      if (!usable) plan.emplace(key.shape, need(0));
    }
    if (shares_input) {
      slab = own_box(rank);
      slab_shape = slab.shape();
    }
  }

  Box own_box(int rank) const { return key.layout ? key.layout.box(rank) : Box::whole(key.shape); }

  Box slab_box(int rank) const {
    Box box = own_box(rank);
    for (int a = 0; a < key.window.size(); ++a) {
      const Index n = key.shape[a + 1];
      const Range out = output_layout ? output_layout.range(rank, a + 1) : whole(output_shape[a + 1]);
      box[a + 1] =
          key.edges == Edges::filled ? key.window[a].inputs_of(out, n) : key.window[a].slab_of(out, n);
    }
    return box;
  }

  NeedMap need(int rank) const {
    const Box box = slab_box(rank);
    NeedMap maps;
    for (int d = 0; d < box.size(); ++d) {
      const bool on_grid = d > 0 && d + 1 < box.size();
      const Boundary boundary = on_grid ? key.window[d - 1].boundary : Boundary::zero;
      const bool nothing = box.is_empty();  // whatever lies along the other axes, there is nothing to fill
      maps.push_back(nothing ? AxisMap{box[d], {}} : map_with_boundary(box[d], key.shape[d], boundary));
    }
    return maps;
  }

  /// True if the local box can stand for the slab: it holds all of it, and what it holds besides does no
  /// harm.
  bool own_box_serves() const {
    const Box own = own_box(key.layout ? key.layout.mesh().rank() : 0);
    for (int a = 0; a < key.window.size(); ++a) {
      const WindowAxis& axis = key.window[a];
      const Range have = own[a + 1], want = slab[a + 1];
      if (have == want) continue;
      if (want.empty() || want.lo < have.lo || want.hi > have.hi) return false;
      if (key.edges == Edges::filled) return false;
      const bool harmless = axis.transposed ? axis.local_pad_lo(outputs[a + 1], have) >= 0
                                            : have.lo == want.lo && have.hi - want.hi < axis.stride;
      if (!harmless) return false;
    }
    return true;
  }
};

WindowedInput::WindowedInput(const Shape& shape, const Layout& layout, const Window& window,
                             Index out_channels, Edges edges) {
  static RecentCache<Key, std::shared_ptr<const Impl>> cache(256);
  const Key key{shape, layout, window, out_channels, edges};
  impl_ = cache.get(key, [&] { return std::make_shared<const Impl>(key); });
}

const Shape& WindowedInput::output_shape() const {
  return impl_->output_shape;
}
const Layout& WindowedInput::output_layout() const {
  return impl_->output_layout;
}

Tensor WindowedInput::empty_output(DType type) const {
  return Tensor::empty(impl_->output_layout, impl_->output_shape, type);
}

const Shape& WindowedInput::slab_shape() const {
  return impl_->slab_shape;
}
const Shape& WindowedInput::local_output_shape() const {
  return impl_->local_output_shape;
}
Range WindowedInput::slab_range(int grid_axis) const {
  return impl_->slab[grid_axis + 1];
}
Range WindowedInput::output_range(int grid_axis) const {
  return impl_->outputs[grid_axis + 1];
}

Index WindowedInput::local_pad_lo(int grid_axis) const {
  return impl_->key.window[grid_axis].local_pad_lo(output_range(grid_axis), slab_range(grid_axis));
}
Index WindowedInput::local_pad_hi(int grid_axis) const {
  return impl_->key.window[grid_axis].local_pad_hi(output_range(grid_axis), slab_range(grid_axis));
}

bool WindowedInput::is_local() const {
  return !impl_->plan || impl_->plan->is_local();
}
bool WindowedInput::shares_input() const {
  return impl_->shares_input;
}

Tensor WindowedInput::gather(const Tensor& x, double fill) const {
  if (impl_->shares_input) return x.as_plain();
  const bool covered = impl_->plan->covers_destination();
  const Tensor slab = covered ? Tensor::empty(impl_->slab_shape, x.dtype())
                              : Tensor::full(impl_->slab_shape, fill, x.dtype());
  impl_->plan->forward(x.raw(), slab.raw(), x.dtype());
  return slab;
}

Tensor WindowedInput::scatter_add(const Tensor& slab_gradient) const {
  const Layout& layout = impl_->key.layout;
  if (impl_->shares_input) return layout ? slab_gradient.with_layout(layout.reduced()) : slab_gradient;
  const DType type = slab_gradient.dtype();
  const Tensor gradient = Tensor::zeros(layout.reduced(), impl_->key.shape, type);
  impl_->plan->adjoint(slab_gradient.raw(), gradient.raw(), type);
  return gradient;
}

}  // namespace tessera
