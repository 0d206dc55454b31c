#include "tests/golden/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "solver/tensor/autograd.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera::golden {
namespace {

std::string joined(const Findings& findings) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(findings.size(), most); ++i) text += (i ? "; " : "") + findings[i];
  if (findings.size() > most) text += fmt::format("; and {} more", findings.size() - most);
  return text;
}

}  // namespace

void Report::check(const std::string& what, const std::function<Findings()>& body) {
  std::string text;
  try {
    text = joined(body());
  } catch (const Error& error) {
    if (error.code() == ExitCode::communication) throw;
    text = error.what();
  } catch (const std::exception& error) {
    text = error.what();
  }
  const int lowest = world_->all_reduce_value(text.empty() ? world_->size() : world_->rank(), ReduceOp::min);
  if (lowest == world_->size()) {
    ++passed_;
    return;
  }
  ++failed_;
  text = world_->broadcast_text(text, lowest);
  if (world_->rank() == 0) {
    std::printf("FAILED %s: rank %d: %s\n", what.c_str(), lowest, text.c_str());
    std::fflush(stdout);
  }
}

int Report::finish() const {
  if (world_->rank() == 0) {
    std::printf("%d passed, %d failed\n", passed_, failed_);
    std::fflush(stdout);
  }
  return failed_ == 0 ? 0 : 1;
}

void compare(Findings& findings, const std::string& name, const Shape& shape, const std::vector<double>& got,
             const Array& want, double rtol, double atol) {
  if (shape != want.shape || got.size() != want.values.size()) {
    findings.push_back(
        fmt::format("{}: found shape {}, expected {}", name, to_string(shape), to_string(want.shape)));
    return;
  }
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - want.values[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    largest = std::max(largest, std::abs(want.values[i]));
    if (std::isinf(worst)) break;
  }
  const double allowed = atol + rtol * largest;
  if (!(worst <= allowed)) {
    findings.push_back(fmt::format("{}: max|got - want| = {:.3g}, allowed {:.3g}", name, worst, allowed));
  }
}

void compare(Findings& findings, const std::string& name, const Tensor& got, const Array& want, double rtol,
             double atol) {
  const NoGrad no_grad;
  const Tensor whole = full_tensor(got);
  compare(findings, name, whole.shape(), whole.to_host<double>(), want, rtol, atol);
}

}  // namespace tessera::golden
