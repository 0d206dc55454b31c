#include "solver/ops/index_bounds.hpp"
#include "solver/ops/layout_builder.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

/// Columns along the looked-up dimension: where those of y and the matching ones of x lie. Distinct columns
/// of y read distinct columns of x.
struct Columns {
  int dims = 0;  // without the looked-up one
  Index extent[kMaxDims] = {}, y_stride[kMaxDims] = {}, x_stride[kMaxDims] = {};
  Index x_first = 0;  // position in x of the first column
  Index count = 1;
  Index y_extent = 0, y_step = 1, x_step = 1;
  Range owned;  // indices of the looked-up dimension that x holds here

  KOKKOS_INLINE_FUNCTION void locate(Index column, Index& y, Index& x) const {
    y = 0;
    x = x_first;
    for (int d = dims - 1; d >= 0; --d) {
      const Index i = column % extent[d];
      column /= extent[d];
      y += i * y_stride[d];
      x += i * x_stride[d];
    }
  }
};

Columns columns_of(const Tensor& x, const Tensor& y, int dim) {
  const Box x_box = x.is_shard() ? x.layout().local_box() : Box::whole(x.shape());
  const Box y_box = y.is_shard() ? y.layout().local_box() : Box::whole(y.shape());
  Columns c;
  Index x_stride = 1, y_stride = 1;
  for (int d = y.ndim() - 1; d >= 0; --d) {
    if (d == dim) {
      c.y_extent = y_box[d].size();
      c.y_step = y_stride;
      c.x_step = x_stride;
      c.owned = x_box[d];
    } else {
      c.extent[c.dims] = y_box[d].size();
      c.y_stride[c.dims] = y_stride;
      c.x_stride[c.dims] = x_stride;
      c.x_first += (y_box[d].lo - x_box[d].lo) * x_stride;
      c.count *= y_box[d].size();
      ++c.dims;
    }
    x_stride *= x_box[d].size();
    y_stride *= y_box[d].size();
  }
  return c;
}

template <typename T>
void look_up(const Columns& c, T* y, const T* x, const std::int64_t* index) {
  for_each(
      "gather", c.count, KOKKOS_LAMBDA(Index column) {
        Index y_at = 0, x_at = 0;
        c.locate(column, y_at, x_at);
        for (Index k = 0; k < c.y_extent; ++k) {
          const Index at = y_at + k * c.y_step, i = index[at];
          if (i >= c.owned.lo && i < c.owned.hi) {
            y[at] = x[x_at + (i - c.owned.lo) * c.x_step];
          } else {
            store(y[at], Compute<T>(0));
          }
        }
      });
}

template <typename T>
void add_back(const Columns& c, T* gx, const T* gy, const std::int64_t* index) {
  for_each(
      "gather_gradient", c.count, KOKKOS_LAMBDA(Index column) {
        Index y_at = 0, x_at = 0;
        c.locate(column, y_at, x_at);
        for (Index k = 0; k < c.y_extent; ++k) {
          const Index at = y_at + k * c.y_step, i = index[at];
          if (i < c.owned.lo || i >= c.owned.hi) continue;
          T& sum = gx[x_at + (i - c.owned.lo) * c.x_step];
          store(sum, load(sum) + load(gy[at]));
        }
      });
}

/// Mesh axes cut what they cut in x; where x is whole, what they cut in the index. Looked-up elements of
/// other ranks are left to them: the result is pending where x is cut along `dim`.
std::optional<Sharding> gather_rule(std::span<const Tensor> operands, const std::any& parameters) {
  const Tensor &x = operands[0], &index = operands[1];
  const int dim = std::any_cast<int>(parameters);
  const Mesh mesh = mesh_of(operands);
  const Layout from_x = layout_on(mesh, x), from_index = layout_on(mesh, index);
  LayoutBuilder lx(mesh, x.shape()), li(mesh, index.shape()), ly(mesh, index.shape());
  std::vector<bool> taken(static_cast<std::size_t>(x.ndim()), false);
  for (int m = 0; m < mesh.axes(); ++m) {
    const Placement px = from_x.placement(m), pi = from_index.placement(m);
    const bool shared = px.is_shard() && px.dim != dim && x.dim(px.dim) == index.dim(px.dim) &&
                        !taken[static_cast<std::size_t>(px.dim)];
    if (px == Shard(dim)) {
      lx.like(from_x, m);
      ly.partial(m);
    } else if (shared) {
      for (LayoutBuilder* b : {&lx, &li, &ly}) b->like(from_x, m);
      taken[static_cast<std::size_t>(px.dim)] = true;
    } else if (pi.is_shard() && !taken[static_cast<std::size_t>(pi.dim)] &&
               (pi.dim == dim || !from_x.is_sharded(pi.dim))) {
      li.like(from_index, m);
      ly.like(from_index, m);
      taken[static_cast<std::size_t>(pi.dim)] = true;
    }
  }
  return Sharding{{lx.build(), li.build()}, ly.build()};
}

const Operator& kGather =
    register_operator({.name = "gather",
                       .signature = "gather(x, dim, index)",
                       .family = "shape",
                       .cuts = {{"dim", Moves::partial}, {"other"}, {"index", Moves::reduction}},
                       .rule = gather_rule});

void check(const Tensor& x, const Tensor& index, int dim) {
  bool fits = index.dtype() == DType::i64 && index.ndim() == x.ndim();
  for (int d = 0; fits && d < x.ndim(); ++d) fits = d == dim || index.dim(d) <= x.dim(d);
  if (!fits) {
    fail(ExitCode::usage, "gather", "found {} and index {}, expected i64, no larger but along dimension {}",
         describe(x), describe(index), dim);
  }
  const auto [least, most] = index_bounds(index);
  if (count(index.shape()) > 0 && (least < 0 || most >= x.dim(dim))) {
    fail(ExitCode::usage, "gather", "index {} outside extent {}", least < 0 ? least : most, x.dim(dim));
  }
}

}  // namespace

Tensor gather(const Tensor& x_in, int dim_in, const Tensor& index_in) {
  const int dim = checked_dim(x_in, dim_in, "gather");
  check(x_in, index_in, dim);
  const OperatorCall call(kGather, {x_in, index_in}, dim);
  const Tensor x = call.on_mesh(0), index = call.on_mesh(1);
  Tensor y = call.empty_result(index.shape(), x.dtype());
  const Columns columns = columns_of(x, y, dim);
  dispatch_floating(x.dtype(), "gather", [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    look_up(columns, y.data<T>(), x.data<T>(), index.data<std::int64_t>());
  });
  record("gather", {x}, y,
         [layout = call.gradient_layout(0), columns, index, shape = x.shape()](const Tensor& gy) {
           const Tensor gx = Tensor::zeros(layout, shape, gy.dtype());
           dispatch_floating(gy.dtype(), "gather", [&](auto* null) {
             using T = std::remove_pointer_t<decltype(null)>;
             add_back(columns, gx.data<T>(), gy.data<T>(), index.data<std::int64_t>());
           });
           return Gradients{gx};
         });
  return y;
}

}  // namespace tessera
