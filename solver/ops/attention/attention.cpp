#include "solver/ops/attention/attention.hpp"

#include <cmath>
#include <string>

#include "solver/ops/attention/blocks.hpp"
#include "solver/ops/attention/exponential.hpp"
#include "solver/ops/attention/layouts.hpp"
#include "solver/ops/registry/operator_call.hpp"
#include "solver/ops/registry/rules.hpp"
#include "solver/ops/shape/rearrange.hpp"
#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {
namespace attention_detail {

BlockRing make_ring(const Tensor& k, const Tensor& v, const std::vector<int>& axes) {
  BlockRing ring;
  const auto add = [&](const Box& k_box, const Box& v_box) {
    ring.positions.push_back(positions_of(k.shape(), k_box));
    ring.k_elements.push_back(k_box.volume());
    ring.elements.push_back(k_box.volume() + v_box.volume());
  };
  if (!k.is_shard()) {
    add(Box::whole(k.shape()), Box::whole(v.shape()));
    return ring;
  }
  const Mesh& mesh = k.layout().mesh();
  std::vector<std::string> names;
  for (const int a : axes) names.emplace_back(mesh.axis_name(a));
  Index size = 1;
  for (const int a : axes) size *= mesh.axis_size(a);
  if (size == 1) {
    add(k.layout().local_box(), v.layout().local_box());
    return ring;
  }
  const Mesh sub = mesh.sub(names);
  for (int r = 0; r < sub.size(); ++r) {
    MeshCoords coords = mesh.coords();
    for (std::size_t i = 0; i < axes.size(); ++i) coords[axes[i]] = sub.coords(r)[static_cast<int>(i)];
    const int rank = mesh.rank_of(coords);
    add(k.layout().box(rank), v.layout().box(rank));
  }
  ring.comm = sub.comm_ptr();
  return ring;
}

namespace {

struct Operands {
  Tensor q, k, v;
};

/// All that one call needs besides the values.
struct Call {
  AxisPlan axes;
  Problem problem;
  BlockRing ring;
  CommPtr merge;  ///< null: the keys of this rank and its ring are all there are
  Tensor mask;    ///< keeps problem.mask alive
};

/// Rescales sums and outputs to the maximum over the ranks that hold other keys, and adds them up.
template <typename A>
void merge_running(const Call& call, const Running<A>& state) {
  if (!call.merge || call.merge->size() == 1) return;
  const Index rows = state.sum.count(), dv = call.problem.dv;
  const DeviceArray<A> own(rows);
  copy_bytes(own.data(), MemorySpace::device, state.maximum.data(), MemorySpace::device, own.bytes());
  all_reduce(*call.merge, state.maximum, ReduceOp::max);
  const A* before = own.data();
  const A* maximum = state.maximum.data();
  A* sum = state.sum.data();
  A* out = state.out.data();
  for_each(
      "attention_rescale", rows, KOKKOS_LAMBDA(Index r) {
        const A factor = sum[r] > 0 ? fast_exp(before[r] - maximum[r]) : A(0);
        sum[r] *= factor;
        for (Index c = 0; c < dv; ++c) out[r * dv + c] *= factor;
      });
  all_reduce(*call.merge, state.sum, ReduceOp::sum);
  all_reduce(*call.merge, state.out, ReduceOp::sum);
}

template <typename T>
Tensor run(const Call& call, const Operands& x) {
  using A = Compute<T>;
  const Problem& p = call.problem;
  const Running<A> state = start_running<A>(p);
  for_each_block<T>(call.ring, x.k, x.v, [&](int owner, const T* k, const T* v, const Progress& progress) {
    attend(p, x.q.data<T>(), call.ring.positions[static_cast<std::size_t>(owner)], k, v, state, progress);
  });
  merge_running(call, state);
  Shape out_shape = x.q.shape();
  out_shape.back() = p.dv;
  Tensor y = Tensor::empty(call.axes.out, out_shape, dtype_of<T>);
  const DeviceArray<A> lse = finish_running(p, state, y.data<T>());

  record(
      "attention", {x.q, x.k, x.v}, y,
      [call, lse, q = x.q.detach(), k = x.k.detach(), v = x.v.detach(), out = y.detach()](const Tensor& gy) {
        const T* gy_data = gy.data<T>();
        const DeviceArray<A> products = output_products(call.problem, out.data<T>(), gy_data);
        const BackwardInputs<T> in{q.data<T>(), gy_data, lse.data(), products.data()};
        const DeviceArray<A> dq(q.local_count());
        dq.zero();
        BlockGradients<A> dkv(call.ring);
        for_each_block<T>(
            call.ring, k, v, [&](int owner, const T* k_block, const T* v_block, const Progress& progress) {
              const Positions& keys = call.ring.positions[static_cast<std::size_t>(owner)];
              dkv.block(owner, [&](A* dk, A* dv, const Progress& sums_progress) {
                attend_backward(call.problem, in, keys, k_block, v_block, dq.data(), dk, dv, [&] {
                  progress();
                  sums_progress();
                });
              });
            });
        const DeviceArray<A> block = dkv.take();
        return Gradients{by_token<T>(dq.data(), call.axes.dq, q.shape()),
                         by_token<T>(block.data(), call.axes.dk, k.shape()),
                         by_token<T>(block.data() + k.local_count(), call.axes.dv, v.shape())};
      });
  return y;
}

void check(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto bad = [](const char* what, const Tensor& t, const Tensor& other) {
    fail(ExitCode::internal, "attention", "{}: found {}, expected (B, *tokens, heads, d) fitting {}", what,
         describe(t), describe(other));
  };
  if (q.ndim() < 4) bad("q", q, k);
  if (k.ndim() < 4 || k.dim(0) != q.dim(0) || k.dim(-2) != q.dim(-2) || k.dim(-1) != q.dim(-1))
    bad("k", k, q);
  bool fits = v.ndim() == k.ndim();
  for (int d = 0; fits && d + 1 < k.ndim(); ++d) fits = v.dim(d) == k.dim(d);
  if (!fits) bad("v", v, k);
  if (k.dtype() != q.dtype() || v.dtype() != q.dtype()) bad("element types of k and v", k, q);
}

Index tokens_of(const Tensor& x) {
  Index n = 1;
  for (int d = 1; d < x.ndim() - 2; ++d) n *= x.dim(d);
  return n;
}

std::optional<Sharding> attention_rule(std::span<const Tensor> operands, const std::any&) {
  const Mesh mesh = mesh_of(operands);
  const auto on_mesh = [&](const Tensor& t) { return layout_on(mesh, t).reduced(); };
  const AxisPlan axes = plan_axes(on_mesh(operands[0]), on_mesh(operands[1]), on_mesh(operands[2]));
  return Sharding{{axes.q, axes.k, axes.v}, axes.out};
}

/// Tokens for heads, or back. Point to point like the ring, so that no attention waits for a collective.
Tensor exchanged(const Tensor& x, const Layout& layout) {
  if (!layout || x.layout() == layout) return x;
  return rearrange("attention", x, layout, x.shape(),
                   std::vector<AxisSource>(static_cast<std::size_t>(x.ndim())));
}

const Operator& kAttention =
    register_operator({.name = "attention",
                       .signature = "attention(q, k, v, options)",
                       .family = "attention",
                       .cuts = {{"batch"}, {"tokens", Moves::ring}, {"heads"}, {"head size", Moves::gather}},
                       .rule = attention_rule});

/// Places the mask and says how to read it.
Tensor arrange_mask(const Tensor& mask_in, const Operands& x, MaskView& view) {
  Tensor mask = mask_in.detach();
  const Shape whole{x.q.dim(0), x.q.dim(-2), tokens_of(x.q), tokens_of(x.k)};
  bool fits = mask.ndim() == 4;
  for (int d = 0; fits && d < 4; ++d) fits = mask.dim(d) == 1 || mask.dim(d) == whole[d];
  if (!fits || mask.dtype() == DType::i32 || mask.dtype() == DType::i64) {
    fail(ExitCode::internal, "attention", "mask: found {}, expected u8 or floating and sizes 1 or {}",
         describe(mask), to_string(whole));
  }
  if (mask.dtype() == DType::bf16) mask = mask.to(DType::f32);
  if (mask.is_shard()) {
    mask = x.q.is_shard() ? redistribute(mask, mask_layout(mask.layout(), x.q.layout())) : full_tensor(mask);
  }
  const Shape& local = mask.local_shape();
  view.type = mask.dtype();
  view.data = mask.raw();
  view.column = mask.dim(3) > 1 ? 1 : 0;
  view.row = mask.dim(2) > 1 ? local[3] : 0;
  view.head = mask.dim(1) > 1 ? local[2] * local[3] : 0;
  view.batch = mask.dim(0) > 1 ? local[1] * local[2] * local[3] : 0;
  if (mask.is_shard() && mask.dim(2) > 1) view.first_row = mask.layout().local_box()[2].lo;
  return mask;
}

}  // namespace
}  // namespace attention_detail

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  using namespace attention_detail;
  check(q, k, v);
  const OperatorCall operator_call(kAttention, {q, k, v});
  Operands x{operator_call.on_mesh(0), operator_call.on_mesh(1), operator_call.on_mesh(2)};
  Call call;
  if (x.q.is_shard()) call.axes = plan_axes(x.q.layout(), x.k.layout(), x.v.layout());
  if (const int axis = x.q.is_shard() ? axis_for_heads(call.axes, options) : -1; axis >= 0) {
    x = {exchanged(x.q, cut_heads(x.q.layout(), axis)), exchanged(x.k, cut_heads(x.k.layout(), axis)),
         exchanged(x.v, cut_heads(x.v.layout(), axis))};
    call.axes = plan_axes(x.q.layout(), x.k.layout(), x.v.layout());
  }
  Problem& p = call.problem;
  const Shape& local = x.q.local_shape();
  p.batch = local[0];
  p.heads = local[x.q.ndim() - 2];
  p.d = x.q.dim(-1);
  p.dv = x.v.dim(-1);
  p.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(p.d)));
  p.causal = options.causal;
  const Box box = x.q.is_shard() ? x.q.layout().local_box() : Box::whole(x.q.shape());
  p.first_batch = box[0].lo;
  p.first_head = box[x.q.ndim() - 2].lo;
  p.queries = positions_of(x.q.shape(), box);
  if (options.mask) call.mask = arrange_mask(options.mask, x, p.mask);
  call.ring = make_ring(x.k, x.v, call.axes.ring_axes);
  std::vector<std::string> merged;
  for (const int a : call.axes.merge_axes) merged.emplace_back(x.q.layout().mesh().axis_name(a));
  if (!merged.empty()) call.merge = x.q.layout().mesh().sub(merged).comm_ptr();
  const Tensor y = dispatch_floating(
      q.dtype(), "attention", [&](auto* tag) { return run<std::remove_pointer_t<decltype(tag)>>(call, x); });
  return exchanged(y, operator_call.result_layout());
}

}  // namespace tessera
