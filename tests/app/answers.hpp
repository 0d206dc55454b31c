#pragma once

#include <gtest/gtest.h>

#include "tests/app/program.hpp"

namespace tessera::testing {

/// Ended with `code`, after one message that contains `text`, and not by the clock.
inline ::testing::AssertionResult failed_with(const Launch& launch, int code, const std::string& text) {
  if (launch.code == code && launch.messages() == 1 && launch.err.find(text) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "exit code " << launch.code << ", expected " << code << "; " << launch.messages()
         << " messages, expected one with '" << text << "':\n"
         << launch.err << launch.out;
}

inline ::testing::AssertionResult succeeded(const Launch& launch) {
  if (launch.code == 0 && launch.messages() == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "exit code " << launch.code << "\n" << launch.err << launch.out;
}

}  // namespace tessera::testing
