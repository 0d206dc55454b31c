#include "io/agree.hpp"

#include <optional>

namespace tessera {
namespace {

// Splits "[where] text" so that Error puts the same message together again.
Error error_from(int code, const std::string& message) {
  const std::size_t end = message.find("] ");
  if (message.empty() || message[0] != '[' || end == std::string::npos) {
    return Error(static_cast<ExitCode>(code), "io", message);
  }
  return Error(static_cast<ExitCode>(code), message.substr(1, end - 1), message.substr(end + 2));
}

}  // namespace

void run_together(Communicator& comm, const std::function<void()>& body) {
  if (comm.size() == 1) return body();
  int code = -1;
  std::string message;
  try {
    body();
  } catch (const Error& e) {
    code = static_cast<int>(e.code());
    message = e.what();
  } catch (const std::exception& e) {
    code = static_cast<int>(ExitCode::internal);
    message = e.what();
  }
  const std::int32_t mine = code < 0 ? comm.size() : comm.rank();
  const std::int32_t first = comm.all_reduce_value(mine, ReduceOp::min);
  if (first == comm.size()) return;
  std::int32_t shared_code = code;
  comm.broadcast(&shared_code, 1, DType::i32, first);
  throw error_from(shared_code, comm.broadcast_text(message, first));
}

void run_on_root(Communicator& comm, const std::function<void()>& body) {
  run_together(comm, [&] {
    if (comm.rank() == 0) body();
  });
}

}  // namespace tessera
