#pragma once

#include "tests/golden/report.hpp"
#include "tests/property/draw.hpp"

namespace tessera::property {

/// One case: everything that follows from seed and number.
struct Case {
  std::string op, text;  ///< of an operator; its parameters, operands and their layouts
  Sample sample;
  std::vector<Layout> layouts;
  DType type = DType::f64;
  testing::Roots roots = testing::Roots::outputs;
  bool spoiled = false;      ///< whether an operand was made not to fit; it may fit all the same
  bool differences = false;  ///< whether finite differences are taken, under the layouts
};

/// The number of cases in which every operator comes as often as its weight says.
std::uint64_t round_length();
/// The operator of a case.
const Generator& generator_of(std::uint64_t number);
/// Collective where it makes a mesh for the first time.
Case make_case(std::uint64_t seed, std::uint64_t number, bool always_differences);

/// Runs the case on plain f64 tensors on each rank and under its layouts on all, and says what differs.
golden::Findings check(Case& c);

}  // namespace tessera::property
