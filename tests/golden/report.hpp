#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/communicator.hpp"
#include "solver/tensor/tensor.hpp"
#include "tests/golden/golden_file.hpp"

namespace tessera::golden {

/// What a check found wrong; empty if nothing.
using Findings = std::vector<std::string>;

/// Counts checks and prints those that fail.
class Report {
 public:
  explicit Report(CommPtr world) : world_(std::move(world)) {}

  /// Runs a check on all ranks; it fails if it finds something, or throws, on any of them. A failure is one
  /// line: `what`, and what the lowest failing rank found. Lost ranks end the program.
  void check(const std::string& what, const std::function<Findings()>& body);
  /// Prints "N passed, N failed"; 0, or 1 if anything failed.
  int finish() const;

 private:
  CommPtr world_;
  int passed_ = 0;
  int failed_ = 0;
};

/// Adds a finding unless the shapes are equal and max|got - want| <= atol + rtol max|want|.
void compare(Findings& findings, const std::string& name, const Shape& shape, const std::vector<double>& got,
             const Array& want, double rtol, double atol);
/// The same for a tensor under any layout.
void compare(Findings& findings, const std::string& name, const Tensor& got, const Array& want, double rtol,
             double atol);

}  // namespace tessera::golden
