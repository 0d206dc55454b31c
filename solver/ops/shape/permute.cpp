#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/shape.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {
namespace {

struct Gather {
  int dims = 0;
  Index extent[kMaxDims] = {};  // of the result
  Index stride[kMaxDims] = {};  // of the source, in result order
};

/// y[i] = x[gathered i], for elements of any type with the size of Word.
template <typename Word>
void gather(Word* y, const Word* x, Gather g) {
  const Index row = g.dims ? g.extent[g.dims - 1] : 1;
  const Index step = g.dims ? g.stride[g.dims - 1] : 0;
  Index rows = 1;
  for (int d = 0; d + 1 < g.dims; ++d) rows *= g.extent[d];
  for_each(
      "permute", rows, KOKKOS_LAMBDA(Index r) {
        Index rest = r, at = 0;
        for (int d = g.dims - 2; d >= 0; --d) {
          at += rest % g.extent[d] * g.stride[d];
          rest /= g.extent[d];
        }
        for (Index i = 0; i < row; ++i) y[r * row + i] = x[at + i * step];
      });
}

/// Drops dimensions of size 1 and merges neighbours that stay neighbours, so that rows are as long as
/// possible.
Gather gather_of(const Shape& local, std::span<const int> dims) {
  Shape strides = Shape::filled(local.size(), 1);
  for (int d = local.size() - 2; d >= 0; --d) strides[d] = strides[d + 1] * local[d + 1];
  Gather g;
  for (int d : dims) {
    if (local[d] == 1) continue;
    const int last = g.dims - 1;
    if (last >= 0 && g.stride[last] == strides[d] * local[d]) {
      g.extent[last] *= local[d];
      g.stride[last] = strides[d];
    } else {
      g.extent[g.dims] = local[d];
      g.stride[g.dims] = strides[d];
      ++g.dims;
    }
  }
  return g;
}

Layout permuted_layout(const Layout& layout, std::span<const int> dims) {
  Shape shape;
  for (int d : dims) shape.push_back(layout.shape()[d]);
  Layout result = Layout::replicated(layout.mesh(), shape);
  for (int a = 0; a < layout.mesh().axes(); ++a) {
    const Placement& p = layout.placement(a);
    if (p.is_partial()) result = result.with_placement(a, p);
    if (!p.is_shard()) continue;
    const int to = static_cast<int>(std::find(dims.begin(), dims.end(), p.dim) - dims.begin());
    result = result.with_placement(a, Shard(to), layout.partition(a));
  }
  return result;
}

Tensor permute_data(const Tensor& x, std::span<const int> dims) {
  Tensor y;
  if (x.is_shard()) {
    y = Tensor::empty(permuted_layout(x.layout(), dims), x.dtype());
  } else {
    Shape shape;
    for (int d : dims) shape.push_back(x.dim(d));
    y = Tensor::empty(shape, x.dtype());
  }
  if (y.local_count() == 0) return y;
  const Gather g = gather_of(x.local_shape(), dims);
  switch (size_of(x.dtype())) {
    case 1:
      gather(static_cast<std::uint8_t*>(y.raw()), static_cast<const std::uint8_t*>(x.raw()), g);
      break;
    case 2:
      gather(static_cast<std::uint16_t*>(y.raw()), static_cast<const std::uint16_t*>(x.raw()), g);
      break;
    case 4:
      gather(static_cast<std::uint32_t*>(y.raw()), static_cast<const std::uint32_t*>(x.raw()), g);
      break;
    default:
      gather(static_cast<std::uint64_t*>(y.raw()), static_cast<const std::uint64_t*>(x.raw()), g);
      break;
  }
  return y;
}

const Operator& kPermute = register_operator({.name = "permute",
                                              .signature = "permute(x, dims)",
                                              .family = "shape",
                                              .cuts = {{"any"}},
                                              .rule = keep_pending_rule()});

}  // namespace

Tensor permute(const Tensor& x, std::span<const int> dims) {
  const OperatorCall call(kPermute, {x});
  require(static_cast<int>(dims.size()) == x.ndim(), "permute", "found {} dimensions, expected {}",
          dims.size(), x.ndim());
  InlineVector<int> inverse = InlineVector<int>::filled(x.ndim(), -1);
  for (int d = 0; d < x.ndim(); ++d) {
    const int from = dims[static_cast<std::size_t>(d)];
    require(from >= 0 && from < x.ndim() && inverse[from] < 0, "permute",
            "dimension {} is out of range or repeated", from);
    inverse[from] = d;
  }
  Tensor y = permute_data(x, dims);
  record("permute", {x}, y, [inverse](const Tensor& g) {
    return Gradients{permute_data(g, {inverse.begin(), inverse.end()})};
  });
  return y;
}

}  // namespace tessera
