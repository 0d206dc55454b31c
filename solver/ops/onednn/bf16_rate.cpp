#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "parallel/error.hpp"
#include "solver/ops/onednn/onednn.hpp"

namespace tessera::onednn {
namespace {

constexpr dnnl::memory::dim kSize = 256;

/// A product of two square matrices with an f32 result, ready to run.
class Product {
 public:
  /// Throws dnnl::error where the processor has no such instructions.
  explicit Product(dnnl::memory::data_type type)
      : operand_({kSize, kSize}, type, dnnl::memory::format_tag::ab),
        result_({kSize, kSize}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab),
        matmul_({{operand_, operand_, result_}, engine()}) {}

  /// Runs once; keeps the shortest time of all calls.
  void run() {
    using dnnl::memory;
    const auto start = std::chrono::steady_clock::now();
    matmul_.execute(stream(), {{DNNL_ARG_SRC, memory(operand_, engine(), a_.data())},
                               {DNNL_ARG_WEIGHTS, memory(operand_, engine(), b_.data())},
                               {DNNL_ARG_DST, memory(result_, engine(), c_.data())}});
    stream().wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    seconds_ = std::min(seconds_, taken.count());
  }
  double seconds() const { return seconds_; }

 private:
  dnnl::memory::desc operand_, result_;
  dnnl::matmul matmul_;
  std::vector<float> a_ = std::vector<float>(kSize * kSize), b_ = a_, c_ = a_;
  double seconds_ = std::numeric_limits<double>::infinity();
};

bool has_bf16() {
  try {
    Product{dnnl::memory::data_type::bf16};
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

/// Clearly faster: half the rate and double the rate are what processors have.
bool measure() {
  if (!has_bf16()) return false;
  Product f32(dnnl::memory::data_type::f32), bf16(dnnl::memory::data_type::bf16);
  for (int i = 0; i < 8; ++i) {
    f32.run();
    bf16.run();
  }
  return 1.2 * bf16.seconds() < f32.seconds();
}

bool choose() {
  const char* chosen = std::getenv("TESSERA_BF16");
  if (!chosen) return measure();
  const std::string_view text(chosen);
  if (text != "native" && text != "widened") {
    fail(ExitCode::usage, "TESSERA_BF16", "found '{}', expected native or widened", text);
  }
  if (text == "native" && !has_bf16()) {
    fail(ExitCode::usage, "TESSERA_BF16", "found native, but this processor has no instructions for bf16");
  }
  return text == "native";
}

}  // namespace

bool multiplies_bf16_faster() {
  static const bool faster = choose();
  return faster;
}

}  // namespace tessera::onednn
