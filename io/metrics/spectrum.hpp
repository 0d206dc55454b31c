#pragma once

#include <memory>
#include <vector>

#include "parallel/layout.hpp"

namespace tessera {

/// Where the power of a field sits in wavenumber space. Parts of wavenumber space are
///   bins    three logarithmic ones in |k|, wavenumber per point, from 2 pi / n (n the longest extent) to
///           pi sqrt(dims), the first from 0 on: they hold the whole power
///   shells  k = floor(sqrt(i^2 + j^2 + ...)) over indices 0 <= i < n / 2 of each axis, k below half of the
///           shortest extent (axes of one point aside)
struct SpectralPower {
  std::vector<double> bins;    ///< mean over space of the square of the field's part in each bin
  std::vector<double> shells;  ///< sum of |F|^2 over the shell, F = sum of field exp(-i k x)
};

/// The discrete Fourier transform of fields that are cut over ranks. The field moves to slabs in which all
/// axes but one are whole, and, half transformed, to slabs in which that one is whole; no rank ever holds
/// more than its slab (a 1-D field has one axis only and is transformed by one rank).
class SpectrumMeter {
 public:
  /// `grid`: which rank holds which box, Shard or Replicate axes. Collective.
  explicit SpectrumMeter(const Layout& grid);
  ~SpectrumMeter();
  SpectrumMeter(SpectrumMeter&&) noexcept;
  SpectrumMeter& operator=(SpectrumMeter&&) noexcept;

  /// `field`: host memory, this rank's box of the grid. Collective; the same result on every rank.
  SpectralPower measure(const double* field);
  std::size_t shells() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
