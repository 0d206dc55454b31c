#pragma once

#include "solver/ops/lanes.hpp"
#include "solver/ops/norm/moments.hpp"

// Internal to layer_norm: x seen as (rows, length), statistics per row, one row after the other.
namespace tessera::norm {

/// Moment of n contiguous values: blocks that stay in cache, each in two passes, merged.
template <typename T>
KOKKOS_INLINE_FUNCTION Moment moment_of(const T* x, Index n) {
  using A = Compute<T>;
  constexpr Index block = 4096;
  Moment all;
  for (Index begin = 0; begin < n; begin += block) {
    const T* p = x + begin;
    const Index m = n - begin < block ? n - begin : block;
    const A guess = lane_sum<A>(m, [p](Index i) { return load(p[i]); }) / static_cast<A>(m);
    // What rounding left of the sum of deviations corrects the mean.
    const double d1 = static_cast<double>(lane_sum<A>(m, [=](Index i) { return load(p[i]) - guess; }));
    const double d2 = static_cast<double>(
        lane_sum<A>(m, [=](Index i) { return (load(p[i]) - guess) * (load(p[i]) - guess); }));
    const double count = static_cast<double>(m);
    all = merge(all, Moment{count, static_cast<double>(guess) + d1 / count, d2 - d1 * d1 / count});
  }
  return all;
}

/// Mean and reciprocal standard deviation of each row, as the kernels use them.
template <typename A>
struct RowStats {
  DeviceArray<A> mean, rstd;
  DeviceArray<A> inverse_count;  ///< 1 / (global number of values of the row)
};

template <typename A>
RowStats<A> row_stats(const DeviceArray<Moment>& moments, double eps) {
  const Index rows = moments.count();
  RowStats<A> stats{DeviceArray<A>(rows), DeviceArray<A>(rows), DeviceArray<A>(rows)};
  const Moment* in = moments.data();
  A* mean = stats.mean.data();
  A* rstd = stats.rstd.data();
  A* inverse = stats.inverse_count.data();
  for_each(
      "norm_row_stats", rows, KOKKOS_LAMBDA(Index r) {
        const double count = in[r].count > 0 ? in[r].count : 1;
        mean[r] = static_cast<A>(in[r].mean);
        rstd[r] = static_cast<A>(1.0 / std::sqrt(in[r].m2 / count + eps));
        inverse[r] = static_cast<A>(1.0 / count);
      });
  return stats;
}

template <typename T>
void row_moments(Index rows, Index length, const T* x, Moment* out) {
  for_each(
      "layer_norm_moments", rows, KOKKOS_LAMBDA(Index r) { out[r] = moment_of(x + r * length, length); });
}

template <typename T, typename A>
KOKKOS_INLINE_FUNCTION void normalise_row(Index length, const T* x, A mean, A rstd, const A* w, const A* b,
                                          T* y) {
  for (Index i = 0; i < length; ++i) store(y[i], (load(x[i]) - mean) * rstd * w[i] + b[i]);
}

template <typename T, typename A>
void row_normalise(Index rows, Index length, const T* x, const RowStats<A>& stats, const A* w, const A* b,
                   T* y) {
  const A* mean = stats.mean.data();
  const A* rstd = stats.rstd.data();
  for_each(
      "layer_norm", rows, KOKKOS_LAMBDA(Index r) {
        normalise_row(length, x + r * length, mean[r], rstd[r], w, b, y + r * length);
      });
}

/// Both passes over a row while it is in cache, for rows that lie whole on this rank.
template <typename T, typename A>
RowStats<A> row_moments_and_normalise(Index rows, Index length, const T* x, double eps, const A* w,
                                      const A* b, T* y) {
  RowStats<A> stats{DeviceArray<A>(rows), DeviceArray<A>(rows), DeviceArray<A>(rows)};
  A* mean = stats.mean.data();
  A* rstd = stats.rstd.data();
  A* inverse = stats.inverse_count.data();
  for_each(
      "layer_norm", rows, KOKKOS_LAMBDA(Index r) {
        const Moment m = moment_of(x + r * length, length);
        const double count = m.count > 0 ? m.count : 1;
        mean[r] = static_cast<A>(m.mean);
        rstd[r] = static_cast<A>(1.0 / std::sqrt(m.m2 / count + eps));
        inverse[r] = static_cast<A>(1.0 / count);
        normalise_row(length, x + r * length, mean[r], rstd[r], w, b, y + r * length);
      });
  return stats;
}

/// What the backward kernels read.
template <typename T, typename A>
struct RowBackward {
  Index rows = 0;
  Index length = 0;
  const T* x = nullptr;
  const T* gy = nullptr;
  const A* w = nullptr;
  const A* mean = nullptr;
  const A* rstd = nullptr;
  const A* inverse_count = nullptr;
};

/// sum(gy w) and sum(gy w xhat) of a row.
template <typename T, typename A>
KOKKOS_INLINE_FUNCTION void row_sums(const RowBackward<T, A>& in, Index r, A& s1, A& s2) {
  const T* x = in.x + r * in.length;
  const T* gy = in.gy + r * in.length;
  const A* w = in.w;
  const A mean = in.mean[r];
  s1 = lane_sum<A>(in.length, [=](Index i) { return load(gy[i]) * w[i]; });
  s2 = lane_sum<A>(in.length, [=](Index i) { return load(gy[i]) * w[i] * (load(x[i]) - mean); }) * in.rstd[r];
}

/// dx = rstd (gy w - s1 / n - xhat s2 / n).
template <typename T, typename A>
KOKKOS_INLINE_FUNCTION void row_dx(const RowBackward<T, A>& in, Index r, A s1, A s2, T* dx_all) {
  const T* x = in.x + r * in.length;
  const T* gy = in.gy + r * in.length;
  T* dx = dx_all + r * in.length;
  const A mean = in.mean[r], rstd = in.rstd[r];
  const A c1 = rstd * s1 * in.inverse_count[r], c2 = rstd * rstd * s2 * in.inverse_count[r];
  for (Index i = 0; i < in.length; ++i) {
    store(dx[i], rstd * load(gy[i]) * in.w[i] - c1 - c2 * (load(x[i]) - mean));
  }
}

template <typename T, typename A>
void rows_sums(const RowBackward<T, A>& in, double* sums) {
  for_each(
      "layer_norm_sums", in.rows, KOKKOS_LAMBDA(Index r) {
        A s1, s2;
        row_sums(in, r, s1, s2);
        sums[2 * r] = static_cast<double>(s1);
        sums[2 * r + 1] = static_cast<double>(s2);
      });
}

/// `sums` null: taken over the local rows, which are whole.
template <typename T, typename A>
void rows_dx(const RowBackward<T, A>& in, const double* sums, T* dx) {
  for_each(
      "layer_norm_dx", in.rows, KOKKOS_LAMBDA(Index r) {
        A s1, s2;
        if (sums) {
          s1 = static_cast<A>(sums[2 * r]);
          s2 = static_cast<A>(sums[2 * r + 1]);
        } else {
          row_sums(in, r, s1, s2);
        }
        row_dx(in, r, s1, s2, dx);
      });
}

/// dw = sum over rows of gy xhat, db = sum over rows of gy.
template <typename T, typename A>
void rows_affine(const RowBackward<T, A>& in, A* dw, A* db) {
  constexpr Index block = 64;
  const Index n = in.length, blocks = (in.rows + block - 1) / block;
  const DeviceArray<A> buffer(2 * n * blocks);
  A* partial = buffer.data();
  for_each(
      "layer_norm_affine_block", blocks, KOKKOS_LAMBDA(Index k) {
        A* pw = partial + 2 * n * k;
        A* pb = pw + n;
        for (Index i = 0; i < 2 * n; ++i) pw[i] = 0;
        const Index last = (k + 1) * block < in.rows ? (k + 1) * block : in.rows;
        for (Index r = k * block; r < last; ++r) {
          const T* x = in.x + r * n;
          const T* gy = in.gy + r * n;
          const A mean = in.mean[r], rstd = in.rstd[r];
          for (Index i = 0; i < n; ++i) {
            const A g = load(gy[i]);
            pw[i] += g * (load(x[i]) - mean) * rstd;
            pb[i] += g;
          }
        }
      });
  for_each(
      "layer_norm_affine", n, KOKKOS_LAMBDA(Index i) {
        double w = 0, b = 0;
        for (Index k = 0; k < blocks; ++k) {
          w += static_cast<double>(partial[2 * n * k + i]);
          b += static_cast<double>(partial[2 * n * k + n + i]);
        }
        dw[i] = static_cast<A>(w);
        db[i] = static_cast<A>(b);
      });
}

}  // namespace tessera::norm
