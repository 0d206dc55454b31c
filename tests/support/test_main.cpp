// main() of every GoogleTest program: all ranks run all cases; rank 0 reports, the others print only their
// failures.
#include "tests/support/test_main.hpp"

#include <cstdio>

#include <gtest/gtest.h>

#include "parallel/runtime.hpp"

namespace tessera::testing {
namespace {

class FailureReporter : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", world()->rank(),
                 result.file_name() ? result.file_name() : "?", result.line_number(), result.message());
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    if (info.result()->Failed()) {
      std::fprintf(stderr, "rank %d: FAILED %s.%s\n", world()->rank(), info.test_suite_name(), info.name());
    }
  }
};

}  // namespace

}  // namespace tessera::testing

int main(int argc, char** argv) {
  tessera::Runtime runtime(argc, argv);
  tessera::testing::set_world(runtime.world());
  ::testing::InitGoogleTest(&argc, argv);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (runtime.world()->rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new tessera::testing::FailureReporter);
  }
  int failed = RUN_ALL_TESTS();
  failed = runtime.world()->all_reduce_value(failed, tessera::ReduceOp::max);
  tessera::testing::set_world(nullptr);
  return failed;
}
