#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "parallel/bfloat16.hpp"
#include "parallel/error.hpp"
#include "solver/ops/onednn/onednn.hpp"

namespace tessera::onednn {
namespace {

constexpr dnnl::memory::dim kSize = 256;

/// Seconds of the fastest of a few products of two square matrices.
double fastest(dnnl::memory::data_type type, void* a, void* b, void* c) {
  using dnnl::memory;
  const auto square = [](memory::data_type t) {
    return memory::desc({kSize, kSize}, t, memory::format_tag::ab);
  };
  const memory::desc operand = square(type), result = square(memory::data_type::f32);
  const dnnl::matmul product({{operand, operand, result}, engine()});
  double seconds = 1e30;
  for (int i = 0; i < 6; ++i) {
    const auto start = std::chrono::steady_clock::now();
    product.execute(stream(), {{DNNL_ARG_SRC, memory(operand, engine(), a)},
                               {DNNL_ARG_WEIGHTS, memory(operand, engine(), b)},
                               {DNNL_ARG_DST, memory(result, engine(), c)}});
    stream().wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    seconds = std::min(seconds, taken.count());
  }
  return seconds;
}

bool measure() {
  constexpr auto n = static_cast<std::size_t>(kSize * kSize);
  std::vector<float> a(n, 1.0f), b(n, 1.0f), c(n);
  std::vector<bfloat16> a16(n), b16(n);
  const double f32 = fastest(dnnl::memory::data_type::f32, a.data(), b.data(), c.data());
  return fastest(dnnl::memory::data_type::bf16, a16.data(), b16.data(), c.data()) < f32;
}

}  // namespace

bool multiplies_bf16_faster() {
  static const bool faster = [] {
    const char* chosen = std::getenv("TESSERA_BF16");
    if (!chosen) return measure();
    const std::string_view text(chosen);
    if (text != "native" && text != "widened") {
      fail(ExitCode::usage, "TESSERA_BF16", "found '{}', expected native or widened", text);
    }
    return text == "native";
  }();
  return faster;
}

}  // namespace tessera::onednn
