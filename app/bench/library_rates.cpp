#include "app/bench/library_rates.hpp"

#include <Kokkos_Core.hpp>
#include <dnnl.hpp>

#include "parallel/memory.hpp"
#include "solver/ops/onednn/onednn.hpp"

namespace tessera::bench {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;
using Arguments = std::unordered_map<int, memory>;

/// Memory of a descriptor, from the same pool as tensors. Every byte is 0x3f: numbers near 0.75 in f32 and
/// bf16, since zeros cost processors less than numbers do.
class Operand {
 public:
  explicit Operand(const memory::desc& desc)
      : block_(MemorySpace::device, desc.get_size()), memory_(desc, onednn::engine(), block_.data()) {
    auto* bytes = static_cast<std::uint8_t*>(block_.data());
    Kokkos::parallel_for(
        "operand", Kokkos::RangePolicy<Kokkos::IndexType<std::size_t>>(0, block_.bytes()),
        KOKKOS_LAMBDA(std::size_t i) { bytes[i] = 0x3f; });
  }
  operator const memory&() const { return memory_; }

 private:
  MemoryBlock block_;
  memory memory_;
};

struct Call {
  dnnl::primitive primitive;
  Arguments arguments;
};

std::function<void()> body_of(std::vector<Call> calls, std::vector<Operand> operands) {
  return [calls = std::move(calls), operands = std::move(operands)] {
    for (const Call& call : calls) call.primitive.execute(onednn::stream(), call.arguments);
    onednn::stream().wait();
  };
}

}  // namespace

std::function<void()> library_gemm(Index n, DType type) {
  const Type in = onednn::data_type(type);
  const memory::desc plain({n, n}, in, Tag::ab), any({n, n}, in, Tag::any), out({n, n}, Type::f32, Tag::ab);
  const dnnl::matmul::primitive_desc matmul(dnnl::matmul::desc(plain, any, out), onednn::engine());
  const std::vector<Operand> operands{Operand(plain), Operand(matmul.weights_desc()), Operand(out)};
  return body_of(
      {{dnnl::matmul(matmul),
        {{DNNL_ARG_SRC, operands[0]}, {DNNL_ARG_WEIGHTS, operands[1]}, {DNNL_ARG_DST, operands[2]}}}},
      operands);
}

std::function<void()> library_conv(const ConvShape& shape) {
  if (count(shape.grid) == 0) return [] {};
  using Forward = dnnl::convolution_forward;
  using Data = dnnl::convolution_backward_data;
  using Weights = dnnl::convolution_backward_weights;
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const auto axes = static_cast<std::size_t>(shape.grid.size());
  const Type type = onednn::data_type(shape.type);
  memory::dims field{1, shape.channels}, kernel{shape.channels, shape.channels};
  for (const Index extent : shape.grid) {
    field.push_back(extent);
    kernel.push_back(3);
  }
  const memory::dims one(axes, 1);
  const memory::desc x(field, type, axes == 2 ? Tag::nhwc : Tag::ndhwc), w(kernel, type, Tag::any);
  auto& engine = onednn::engine();
  const Forward::primitive_desc forward(
      Forward::desc(dnnl::prop_kind::forward_training, direct, x, w, x, one, one, one), engine);
  const Data::primitive_desc data(Data::desc(direct, x, w, x, one, one, one), engine, forward);
  const Weights::primitive_desc weights(Weights::desc(direct, x, w, x, one, one, one), engine, forward);
  const std::vector<Operand> o{Operand(x), Operand(forward.weights_desc()),
                               Operand(x), Operand(data.weights_desc()),
                               Operand(x), Operand(weights.diff_weights_desc())};
  return body_of(
      {{Forward(forward), {{DNNL_ARG_SRC, o[0]}, {DNNL_ARG_WEIGHTS, o[1]}, {DNNL_ARG_DST, o[2]}}},
       {Data(data), {{DNNL_ARG_DIFF_DST, o[2]}, {DNNL_ARG_WEIGHTS, o[3]}, {DNNL_ARG_DIFF_SRC, o[4]}}},
       {Weights(weights), {{DNNL_ARG_SRC, o[0]}, {DNNL_ARG_DIFF_DST, o[2]}, {DNNL_ARG_DIFF_WEIGHTS, o[5]}}}},
      o);
}

}  // namespace tessera::bench
