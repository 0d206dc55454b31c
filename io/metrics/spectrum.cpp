#include "io/metrics/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <optional>

#include <fftw3.h>

#include "io/strided_copy.hpp"
#include "parallel/exchange_plan.hpp"

namespace tessera {
namespace {

constexpr int kBins = 3;
constexpr double kRoundOff = 1e-12;

/// A complex field in memory that suits FFTW's vector instructions.
class ComplexBuffer {
 public:
  explicit ComplexBuffer(Index elements)
      : data_(fftw_alloc_complex(static_cast<std::size_t>(std::max<Index>(elements, 1))), fftw_free) {
    require(data_ != nullptr, "spectrum", "no memory for {} complex numbers", elements);
  }
  fftw_complex* data() const { return data_.get(); }

 private:
  std::unique_ptr<fftw_complex, void (*)(void*)> data_;
};

/// Transforms some axes of a contiguous array in place.
class LocalTransform {
 public:
  LocalTransform(const ComplexBuffer& buffer, const Shape& shape, const std::vector<int>& axes) {
    if (count(shape) == 0 || axes.empty()) return;
    const Shape strides = strides_of(shape);
    std::vector<fftw_iodim64> along, others;
    for (int d = 0; d < shape.size(); ++d) {
      const bool chosen = std::find(axes.begin(), axes.end(), d) != axes.end();
      (chosen ? along : others).push_back({shape[d], strides[d], strides[d]});
    }
    plan_.reset(fftw_plan_guru64_dft(static_cast<int>(along.size()), along.data(),
                                     static_cast<int>(others.size()), others.data(), buffer.data(),
                                     buffer.data(), FFTW_FORWARD, FFTW_ESTIMATE));
    require(plan_ != nullptr, "spectrum", "no transform for an array of shape {}", to_string(shape));
  }
  void run() const {
    if (plan_) fftw_execute(plan_.get());
  }

 private:
  struct Destroy {
    void operator()(fftw_plan_s* plan) const { fftw_destroy_plan(plan); }
  };
  std::unique_ptr<fftw_plan_s, Destroy> plan_;
};

/// The grid cut along one axis over all ranks; with `trailing` one more, uncut dimension of that size.
Layout slabs(const Mesh& ranks, Shape grid, int axis, Index trailing) {
  // A 1-D grid stays whole, on the first rank.
  std::vector<Index> sizes(static_cast<std::size_t>(ranks.size()), 0);
  sizes.front() = grid[axis];
  const Partition cut =
      grid.size() == 1 ? Partition::from_sizes(sizes) : Partition::even(grid[axis], ranks.size());
  if (trailing > 0) grid.push_back(trailing);
  return Layout(ranks, {Shard(axis)}, grid, {cut});
}

/// Moves a field of doubles between boxes through device memory.
void move(const ExchangePlan& plan, const double* from, double* to) {
  const auto source_bytes = static_cast<std::size_t>(count(plan.source_shape())) * sizeof(double);
  const auto destination_bytes = static_cast<std::size_t>(count(plan.destination_shape())) * sizeof(double);
  const MemoryBlock source(MemorySpace::device, source_bytes);
  const MemoryBlock destination(MemorySpace::device, destination_bytes);
  copy_bytes(source.data(), MemorySpace::device, from, MemorySpace::host, source_bytes);
  plan.forward(source.data(), destination.data(), DType::f64);
  copy_bytes(to, MemorySpace::host, destination.data(), MemorySpace::device, destination_bytes);
}

/// The two axes with the most points, the cut of the first slabs and of the second; equal on a 1-D grid.
std::pair<int, int> cut_axes(const Shape& grid) {
  std::vector<int> order(static_cast<std::size_t>(grid.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return grid[a] > grid[b]; });
  return order.size() == 1 ? std::pair{0, 0}
                           : std::pair{std::min(order[0], order[1]), std::max(order[0], order[1])};
}

std::vector<int> axes_without(const Shape& grid, int axis) {
  std::vector<int> axes;
  for (int d = 0; d < grid.size(); ++d) {
    if (d != axis || grid.size() == 1) axes.push_back(d);
  }
  return axes;
}

Index shell_count(const Shape& grid) {
  Index shortest = 0;
  for (const Index n : grid) {
    if (n > 1) shortest = shortest == 0 ? n : std::min(shortest, n);
  }
  return shortest / 2;
}

}  // namespace

struct SpectrumMeter::Impl {
  Shape grid;
  Mesh ranks;
  Layout first, second;  // (grid..., 2)
  ExchangePlan to_first;
  std::optional<ExchangePlan> to_second;
  ComplexBuffer a, b;
  LocalTransform transform_a, transform_b;
  std::vector<double> real;
  Index shells;
  double first_edge, second_edge;  // |k| between the bins

  Impl(const Layout& layout, const Mesh& flat, std::pair<int, int> axes)
      : grid(layout.shape()),
        ranks(flat),
        first(slabs(ranks, grid, axes.first, 2)),
        second(slabs(ranks, grid, axes.second, 2)),
        to_first(layout, [target = slabs(ranks, grid, axes.first, 0)](int r) { return need_of(target, r); }),
        a(first.local_box().volume() / 2),
        b(second.local_box().volume() / 2),
        transform_a(a, complex_shape(first), axes_without(grid, axes.first)),
        transform_b(b, complex_shape(second),
                    grid.size() > 1 ? std::vector<int>{axes.first} : std::vector<int>{}),
        real(static_cast<std::size_t>(first.local_box().volume() / 2)),
        shells(shell_count(grid)) {
    if (grid.size() > 1) {
      to_second.emplace(first, [target = second](int r) { return need_of(target, r); });
    }
    const double dims = grid.size();
    const auto longest = static_cast<double>(*std::max_element(grid.begin(), grid.end()));
    const double lowest = 2 * std::numbers::pi / longest, highest = std::numbers::pi * std::sqrt(dims);
    const double ratio = std::cbrt(highest / lowest);
    // A mode on an edge belongs above it, whatever round-off says.
    first_edge = lowest * ratio * (1 - kRoundOff);
    second_edge = lowest * ratio * ratio * (1 - kRoundOff);
  }

  static Shape complex_shape(const Layout& layout) {
    Shape shape = layout.local_shape();
    shape.pop_back();
    return shape;
  }

  /// Adds |F|^2 of this rank's part of wavenumber space: three bins, then the shells.
  void add_power(const fftw_complex* modes, Box box, std::vector<double>& sums) const {
    box.pop_back();
    if (box.is_empty()) return;
    const int dims = box.size();
    Shape index;
    for (const Range& r : box) index.push_back(r.lo);
    const Index total = box.volume();
    for (Index at = 0; at < total; ++at) {
      double square = 0, shell = 0;
      bool in_shells = true;
      for (int d = 0; d < dims; ++d) {
        const Index n = grid[d], i = index[d];
        const double k =
            2 * std::numbers::pi * static_cast<double>(std::min(i, n - i)) / static_cast<double>(n);
        square += k * k;
        shell += static_cast<double>(i * i);
        in_shells = in_shells && (i < n / 2 || i == 0);
      }
      const double power = modes[at][0] * modes[at][0] + modes[at][1] * modes[at][1];
      const double k = std::sqrt(square);
      sums[k < first_edge ? 0 : k < second_edge ? 1 : 2] += power;
      const auto which = static_cast<Index>(std::sqrt(shell));
      if (in_shells && which < shells) sums[static_cast<std::size_t>(kBins + which)] += power;
      for (int d = dims - 1; d >= 0; --d) {
        if (++index[d] < box[d].hi) break;
        index[d] = box[d].lo;
      }
    }
  }
};

SpectrumMeter::SpectrumMeter(const Layout& grid) {
  const MeshAxis all{"ranks", -1};
  impl_ = std::make_unique<Impl>(grid, Mesh(grid.mesh().comm_ptr(), {&all, 1}), cut_axes(grid.shape()));
}
SpectrumMeter::~SpectrumMeter() = default;
SpectrumMeter::SpectrumMeter(SpectrumMeter&&) noexcept = default;
SpectrumMeter& SpectrumMeter::operator=(SpectrumMeter&&) noexcept = default;

std::size_t SpectrumMeter::shells() const {
  return static_cast<std::size_t>(impl_->shells);
}

SpectralPower SpectrumMeter::measure(const double* field) {
  Impl& m = *impl_;
  move(m.to_first, field, m.real.data());
  for (std::size_t i = 0; i < m.real.size(); ++i) {
    m.a.data()[i][0] = m.real[i];
    m.a.data()[i][1] = 0;
  }
  m.transform_a.run();
  std::vector<double> sums(kBins + shells(), 0.0);
  if (m.to_second) {
    move(*m.to_second, m.a.data()[0], m.b.data()[0]);
    m.transform_b.run();
    m.add_power(m.b.data(), m.second.local_box(), sums);
  } else {
    m.add_power(m.a.data(), m.first.local_box(), sums);
  }
  m.ranks.comm().all_reduce(sums.data(), static_cast<Index>(sums.size()), DType::f64, ReduceOp::sum);
  SpectralPower result;
  const auto points = static_cast<double>(count(m.grid));
  for (int i = 0; i < kBins; ++i) result.bins.push_back(sums[static_cast<std::size_t>(i)] / points / points);
  result.shells.assign(sums.begin() + kBins, sums.end());
  return result;
}

}  // namespace tessera
