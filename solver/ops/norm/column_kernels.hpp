#pragma once

#include "solver/ops/elementwise/gelu.hpp"
#include "solver/ops/norm/moments.hpp"
#include "solver/tensor/numeric.hpp"

// Internal to the normalisations with statistics per channel or group of channels. x is seen as (samples,
// rows, channels): loops run over blocks of rows, the inner one over the contiguous channels.
namespace tessera::norm {

/// This rank's part, and which group a channel belongs to.
///     group norm     samples = B, rows = grid, groups = all groups of the tensor (a cut between channels may
///     split one) instance norm  samples = B, rows = grid, one group per local channel batch norm     samples
///     = 1, rows = B * grid, one group per local channel
struct Columns {
  Index samples = 1;
  Index rows = 1;
  Index channels = 1;
  Index groups = 1;
  Index first_channel = 0;  ///< global index of local channel 0, for group norm; else 0
  Index channels_per_group = 1;

  static constexpr Index block = 128;  ///< rows per work item
  Index blocks() const { return (rows + block - 1) / block; }
  KOKKOS_INLINE_FUNCTION Index group_of(Index c) const { return (first_channel + c) / channels_per_group; }
  KOKKOS_INLINE_FUNCTION Index last_row(Index k) const {
    return (k + 1) * block < rows ? (k + 1) * block : rows;
  }
};

/// Moments (samples, groups) of the local values.
template <typename T>
void column_moments(const Columns& v, const T* x, Moment* out) {
  using A = Compute<T>;
  const Index blocks = v.blocks(), channels = v.channels;
  const DeviceArray<A> sums(v.samples * blocks * channels * 3);
  A* buffer = sums.data();
  // Two passes over a block that stays in cache; what rounding left of the sum of deviations corrects the
  // mean.
  for_each(
      "norm_column_moments", v.samples * blocks, KOKKOS_LAMBDA(Index item) {
        const Index k = item % blocks, begin = k * Columns::block, end = v.last_row(k);
        const T* base = x + (item / blocks) * v.rows * channels;
        A* mean = buffer + item * channels * 3;
        A* first = mean + channels;
        A* second = first + channels;
        for (Index c = 0; c < 3 * channels; ++c) mean[c] = 0;
        for (Index r = begin; r < end; ++r) {
          const T* row = base + r * channels;
          for (Index c = 0; c < channels; ++c) mean[c] += load(row[c]);
        }
        const A scale = A(1) / static_cast<A>(end - begin);
        for (Index c = 0; c < channels; ++c) mean[c] *= scale;
        for (Index r = begin; r < end; ++r) {
          const T* row = base + r * channels;
          for (Index c = 0; c < channels; ++c) {
            const A d = load(row[c]) - mean[c];
            first[c] += d;
            second[c] += d * d;
          }
        }
      });
  for_each(
      "norm_column_merge", v.samples * v.groups, KOKKOS_LAMBDA(Index item) {
        const Index n = item / v.groups, g = item % v.groups;
        Moment all;
        for (Index k = 0; k < blocks; ++k) {
          const A* mean = buffer + (n * blocks + k) * channels * 3;
          const double count = static_cast<double>(v.last_row(k) - k * Columns::block);
          const Index lo = g * v.channels_per_group - v.first_channel, hi = lo + v.channels_per_group;
          for (Index c = lo < 0 ? 0 : lo; c < (hi < channels ? hi : channels); ++c) {
            const double d1 = static_cast<double>(mean[channels + c]),
                         d2 = static_cast<double>(mean[2 * channels + c]);
            all = merge(all, Moment{count, static_cast<double>(mean[c]) + d1 / count, d2 - d1 * d1 / count});
          }
        }
        out[item] = all;
      });
}

/// Mean and reciprocal standard deviation per sample and channel (samples, channels).
template <typename A>
struct ColumnStats {
  DeviceArray<A> mean, rstd;
};

template <typename A>
ColumnStats<A> column_stats(const Columns& v, const Moment* moments, double eps) {
  ColumnStats<A> stats{DeviceArray<A>(v.samples * v.channels), DeviceArray<A>(v.samples * v.channels)};
  A* mean = stats.mean.data();
  A* rstd = stats.rstd.data();
  for_each(
      "norm_column_stats", v.samples * v.channels, KOKKOS_LAMBDA(Index i) {
        const Moment& m = moments[i / v.channels * v.groups + v.group_of(i % v.channels)];
        mean[i] = static_cast<A>(m.mean);
        rstd[i] = static_cast<A>(1.0 / std::sqrt(m.m2 / (m.count > 0 ? m.count : 1) + eps));
      });
  return stats;
}

template <typename T, typename A>
void column_normalise(const Columns& v, const T* x, const ColumnStats<A>& stats, const A* w, const A* b,
                      T* y) {
  const DeviceArray<A> scales(v.samples * v.channels);
  A* scale_all = scales.data();
  const A* mean_all = stats.mean.data();
  const A* rstd = stats.rstd.data();
  for_each(
      "norm_column_scale", v.samples * v.channels,
      KOKKOS_LAMBDA(Index i) { scale_all[i] = rstd[i] * w[i % v.channels]; });
  const Index blocks = v.blocks();
  for_each(
      "norm_column_apply", v.samples * blocks, KOKKOS_LAMBDA(Index item) {
        const Index n = item / blocks, k = item % blocks;
        const A* mean = mean_all + n * v.channels;
        const A* scale = scale_all + n * v.channels;
        for (Index r = k * Columns::block; r < v.last_row(k); ++r) {
          const T* in = x + (n * v.rows + r) * v.channels;
          T* out = y + (n * v.rows + r) * v.channels;
          for (Index c = 0; c < v.channels; ++c) store(out[c], (load(in[c]) - mean[c]) * scale[c] + b[c]);
        }
      });
}

/// With s = (x - mean) rstd w + b + residual (null: 0): writes term(s, i) to element i of out.
template <bool has_residual, typename T, typename A, typename Term>
void for_each_normalised(const Columns& v, const T* x, const T* residual, const ColumnStats<A>& stats,
                         const A* w, const A* b, T* out, Term term) {
  const A* mean_all = stats.mean.data();
  const A* rstd_all = stats.rstd.data();
  const Index blocks = v.blocks(), channels = v.channels;
  for_each(
      "norm_column_gelu", v.samples * blocks, KOKKOS_LAMBDA(Index item) {
        const Index n = item / blocks, k = item % blocks;
        const A* mean = mean_all + n * channels;
        const A* rstd = rstd_all + n * channels;
        for (Index r = k * Columns::block; r < v.last_row(k); ++r) {
          const Index row = (n * v.rows + r) * channels;
          for (Index c = 0; c < channels; ++c) {
            A s = (load(x[row + c]) - mean[c]) * (rstd[c] * w[c]) + b[c];
            if constexpr (has_residual) s += load(residual[row + c]);
            store(out[row + c], term(s, row + c));
          }
        }
      });
}

template <typename T>
struct GeluTerm {
  template <typename A>
  KOKKOS_INLINE_FUNCTION A operator()(A s, Index) const {
    return Gelu().value(s);
  }
};
template <typename T>
struct GeluCotangent {
  const T* gy;
  template <typename A>
  KOKKOS_INLINE_FUNCTION A operator()(A s, Index i) const {
    return load(gy[i]) * Gelu().slope(s);
  }
};

/// gelu(s), or, given gy, the cotangent gy gelu'(s) of s, with s as above.
template <typename T, typename A>
void column_gelu(const Columns& v, const T* x, const T* residual, const ColumnStats<A>& stats, const A* w,
                 const A* b, const T* gy, T* out) {
  const auto run = [&](auto term) {
    residual ? for_each_normalised<true>(v, x, residual, stats, w, b, out, term)
             : for_each_normalised<false>(v, x, residual, stats, w, b, out, term);
  };
  gy ? run(GeluCotangent<T>{gy}) : run(GeluTerm<T>{});
}

/// Per sample and channel: sum(gy) and sum(gy xhat) over the local rows, as (samples, 2, channels).
template <typename T, typename A>
DeviceArray<double> column_sums(const Columns& v, const T* x, const T* gy, const ColumnStats<A>& stats) {
  const Index blocks = v.blocks(), channels = v.channels;
  const DeviceArray<A> partials(v.samples * blocks * channels * 2);
  DeviceArray<double> sums(v.samples * channels * 2);
  A* buffer = partials.data();
  double* out = sums.data();
  const A* mean_all = stats.mean.data();
  const A* rstd_all = stats.rstd.data();
  for_each(
      "norm_column_sums_block", v.samples * blocks, KOKKOS_LAMBDA(Index item) {
        const Index n = item / blocks, k = item % blocks;
        const A* mean = mean_all + n * channels;
        A* s1 = buffer + item * channels * 2;
        A* s2 = s1 + channels;
        for (Index c = 0; c < 2 * channels; ++c) s1[c] = 0;
        for (Index r = k * Columns::block; r < v.last_row(k); ++r) {
          const T* in = x + (n * v.rows + r) * channels;
          const T* g = gy + (n * v.rows + r) * channels;
          for (Index c = 0; c < channels; ++c) {
            const A value = load(g[c]);
            s1[c] += value;
            s2[c] += value * (load(in[c]) - mean[c]);
          }
        }
      });
  for_each(
      "norm_column_sums", v.samples * channels, KOKKOS_LAMBDA(Index i) {
        const Index n = i / channels, c = i % channels;
        double s1 = 0, s2 = 0;
        for (Index k = 0; k < blocks; ++k) {
          const A* p = buffer + (n * blocks + k) * channels * 2;
          s1 += static_cast<double>(p[c]);
          s2 += static_cast<double>(p[channels + c]);
        }
        out[n * 2 * channels + c] = s1;
        out[n * 2 * channels + channels + c] = s2 * static_cast<double>(rstd_all[i]);
      });
  return sums;
}

/// sum(gy w) and sum(gy w xhat) per sample and group, as (samples, groups, 2).
template <typename A>
DeviceArray<double> group_sums(const Columns& v, const double* sums, const A* w) {
  DeviceArray<double> result(v.samples * v.groups * 2);
  double* out = result.data();
  for_each(
      "norm_group_sums", v.samples * v.groups, KOKKOS_LAMBDA(Index item) {
        const Index n = item / v.groups, g = item % v.groups;
        const double* s = sums + n * 2 * v.channels;
        const Index lo = g * v.channels_per_group - v.first_channel, hi = lo + v.channels_per_group;
        double s1 = 0, s2 = 0;
        for (Index c = lo < 0 ? 0 : lo; c < (hi < v.channels ? hi : v.channels); ++c) {
          s1 += static_cast<double>(w[c]) * s[c];
          s2 += static_cast<double>(w[c]) * s[v.channels + c];
        }
        out[2 * item] = s1;
        out[2 * item + 1] = s2;
      });
  return result;
}

/// dw = sum over samples of sum(gy xhat), db of sum(gy).
template <typename A>
void column_affine(const Columns& v, const double* sums, A* dw, A* db) {
  for_each(
      "norm_column_affine", v.channels, KOKKOS_LAMBDA(Index c) {
        double w = 0, b = 0;
        for (Index n = 0; n < v.samples; ++n) {
          b += sums[n * 2 * v.channels + c];
          w += sums[n * 2 * v.channels + v.channels + c];
        }
        dw[c] = static_cast<A>(w);
        db[c] = static_cast<A>(b);
      });
}

/// dx = rstd (gy w - s1 / n - xhat s2 / n); without `sums` the statistics are constants: dx = rstd gy w.
template <typename T, typename A>
void column_dx(const Columns& v, const T* x, const T* gy, const ColumnStats<A>& stats, const A* w,
               const double* sums, const Moment* moments, T* dx) {
  const Index blocks = v.blocks(), channels = v.channels;
  const DeviceArray<A> coefficients(v.samples * 3 * channels);
  A* buffer = coefficients.data();
  const A* mean_all = stats.mean.data();
  const A* rstd = stats.rstd.data();
  for_each(
      "norm_column_coefficients", v.samples * channels, KOKKOS_LAMBDA(Index i) {
        const Index n = i / channels, c = i % channels, group = n * v.groups + v.group_of(c);
        A* out = buffer + n * 3 * channels + c;
        out[0] = rstd[i] * w[c];
        const double scale = sums ? static_cast<double>(rstd[i]) / moments[group].count : 0.0;
        out[channels] = sums ? static_cast<A>(scale * sums[2 * group]) : A(0);
        out[2 * channels] =
            sums ? static_cast<A>(scale * static_cast<double>(rstd[i]) * sums[2 * group + 1]) : A(0);
      });
  for_each(
      "norm_column_dx", v.samples * blocks, KOKKOS_LAMBDA(Index item) {
        const Index n = item / blocks, k = item % blocks;
        const A* mean = mean_all + n * channels;
        const A* a = buffer + n * 3 * channels;
        const A* c1 = a + channels;
        const A* c2 = c1 + channels;
        for (Index r = k * Columns::block; r < v.last_row(k); ++r) {
          const Index row = (n * v.rows + r) * channels;
          for (Index c = 0; c < channels; ++c) {
            store(dx[row + c], a[c] * load(gy[row + c]) - c1[c] - c2[c] * (load(x[row + c]) - mean[c]));
          }
        }
      });
}

}  // namespace tessera::norm
