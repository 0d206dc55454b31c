// An operator of one's own, outside the library: the periodic five-point Laplacian of a field (batch, H, W,
// C), with its registry entry, its local kernel and its gradient. Cut over all ranks it gives what one
// process gives, values and gradients.
#include <cmath>
#include <cstdio>

#include "parallel/runtime.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/window/windowed_input.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/numeric.hpp"

namespace {

using namespace tessera;

/// The field stays where it is; ranks exchange one row or column of cells with their neighbours.
const Operator& kLaplacian = register_operator({.name = "laplacian",
                                                .signature = "laplacian(x)",
                                                .family = "example",
                                                .cuts = {{"batch"}, {"grid", Moves::halo}, {"channels"}},
                                                .rule = keep_rule()});

/// y (B, h, w, C) from the slab (B, h + 2, w + 2, C).
void forward_kernel(const Shape& out, const float* slab, float* y) {
  const Index h = out[1], w = out[2], c = out[3], row = (w + 2) * c;
  for_each(
      "laplacian", count(out), KOKKOS_LAMBDA(Index i) {
        const Index channel = i % c, x = i / c % w, rest = i / c / w;
        const Index at = ((rest / h * (h + 2) + rest % h + 1) * (w + 2) + x + 1) * c + channel;
        y[i] = slab[at - row] + slab[at + row] + slab[at - c] + slab[at + c] - 4 * slab[at];
      });
}

/// The adjoint: each cell of the slab collects from the outputs that read it.
void backward_kernel(const Shape& out, const float* gy, float* gslab) {
  const Index h = out[1], w = out[2], c = out[3];
  for_each(
      "laplacian_gradient", out[0] * (h + 2) * (w + 2) * c, KOKKOS_LAMBDA(Index i) {
        const Index channel = i % c, sx = i / c % (w + 2), rest = i / c / (w + 2);
        const Index b = rest / (h + 2), sy = rest % (h + 2);
        const auto cotangent = [&](Index y, Index x) {
          return y < 0 || y >= h || x < 0 || x >= w ? 0.0F : gy[((b * h + y) * w + x) * c + channel];
        };
        gslab[i] = cotangent(sy - 2, sx - 1) + cotangent(sy, sx - 1) + cotangent(sy - 1, sx - 2) +
                   cotangent(sy - 1, sx) - 4 * cotangent(sy - 1, sx - 1);
      });
}

Tensor laplacian(const Tensor& x_in) {
  const OperatorCall call(kLaplacian, {x_in});
  const Tensor& x = call[0];
  const WindowAxis axis{.kernel = 3, .pad_lo = 1, .pad_hi = 1, .boundary = Boundary::periodic};
  const WindowedInput input(x, {axis, axis}, x.dim(-1), Edges::filled);
  Tensor y = input.empty_output(x.dtype());
  forward_kernel(y.local_shape(), input.gather(x).data<float>(), y.data<float>());
  record(call.name(), {x}, y, [input](const Tensor& gy) {
    const Tensor slab_gradient = Tensor::empty(input.slab_shape(), gy.dtype());
    backward_kernel(gy.local_shape(), gy.data<float>(), slab_gradient.data<float>());
    return Gradients{input.scatter_add(slab_gradient)};
  });
  return y;
}

/// A wave, and the gradient of the sum of y * y.
std::vector<double> gradient_on(const Layout& layout, const Shape& shape) {
  const Box box = layout ? layout.local_box() : Box::whole(shape);
  std::vector<double> values;
  for (Index y = box[1].lo; y < box[1].hi; ++y) {
    for (Index x = box[2].lo; x < box[2].hi; ++x) {
      values.push_back(std::sin(0.7 * static_cast<double>(y)) + std::cos(0.3 * static_cast<double>(x * y)));
    }
  }
  const Tensor field = layout ? Tensor::empty(layout) : Tensor::empty(shape);
  field.copy_from_host<double>(values);
  field.set_requires_grad();
  const Tensor y = laplacian(field);
  y.backward(y.detach());
  return full_tensor(field.grad()).to_host<double>();
}

int run(const CommPtr& world) {
  const MeshAxis axis{"domain", -1};
  const Mesh domain(world, {&axis, 1});
  const Shape shape{1, 11, 9, 1};
  const std::vector<double> whole = gradient_on({}, shape),
                            cut = gradient_on(Layout::even(domain, {Shard(1)}, shape), shape);
  double error = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) error = std::max(error, std::abs(whole[i] - cut[i]));
  if (world->rank() == 0) std::printf("laplacian on %d ranks: largest difference %g\n", world->size(), error);
  return error < 1e-5 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  tessera::Runtime runtime(argc, argv);
  return tessera::run_guarded(*runtime.world(), [&] { return run(runtime.world()); });
}
