#include "solver/ops/onednn/onednn.hpp"

namespace tessera::onednn {

dnnl::engine& engine() {
  static dnnl::engine the_engine(dnnl::engine::kind::cpu, 0);
  return the_engine;
}

dnnl::stream& stream() {
  static dnnl::stream the_stream(engine());
  return the_stream;
}

dnnl::memory::data_type data_type(DType type) {
  switch (type) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    default:
      fail(ExitCode::internal, "onednn", "found element type {}, expected f32 or bf16", name_of(type));
  }
}

dnnl::memory::dims dims(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

bool supports(DType type) {
  return type == DType::f32 || type == DType::bf16;
}

}  // namespace tessera::onednn
