#include "parallel/communicator.hpp"

namespace tessera {

std::string Communicator::broadcast_text(std::string text, int root) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  broadcast(&length, 1, DType::i64, root);
  text.resize(static_cast<std::size_t>(length));
  broadcast(text.data(), length, DType::u8, root);
  return text;
}

}  // namespace tessera
