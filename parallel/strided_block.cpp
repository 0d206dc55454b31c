#include "parallel/strided_block.hpp"

#include <type_traits>
#include <utility>

#include <Kokkos_Core.hpp>

#include "parallel/bfloat16.hpp"
#include "parallel/division.hpp"

namespace tessera {
namespace {

using Policy = Kokkos::RangePolicy<Kokkos::DefaultExecutionSpace, Kokkos::IndexType<Index>>;

/// Elements that one work item moves, of a long row or of several short ones: many on processors with caches,
/// one (neighbouring items move neighbouring elements) on a device.
constexpr Index kRun =
    std::is_same_v<Kokkos::DefaultExecutionSpace::memory_space, Kokkos::HostSpace> ? Index{1} << 14 : 1;

/// Offsets of the `index`-th element, in row-major order, of the first `dims` dimensions.
KOKKOS_INLINE_FUNCTION void add_offsets(const StridedBlock& block, int dims, Index index, Index& from,
                                        Index& to) {
  for (int d = dims - 1; d >= 0; --d) {
    const Index rest = index / block.count[d];
    const Index i = index - rest * block.count[d];
    from += i * block.from_stride[d];
    to += i * block.to_stride[d];
    index = rest;
  }
}

/// Calls move(from, to, length) with the offsets of every run along the last dimension.
template <typename Move>
void for_each_run(const char* name, const StridedBlock& block, const Move& move) {
  const int last = block.dims - 1, above = last > 0 ? last - 1 : last;
  const Index n = block.count[last], m = last > 0 ? block.count[above] : 1;
  const Index run = n < kRun ? n : kRun, runs = ceil_div(n, run);
  const Index rows = m < kRun / run ? m : kRun / run, groups = ceil_div(m, rows);
  const StridedBlock b = block;
  Kokkos::parallel_for(
      name, Policy(0, block.volume() / (n * m) * groups * runs), KOKKOS_LAMBDA(Index item) {
        const Index group = item / runs, outer = group / groups;
        const Index begin = (item - group * runs) * run, first = (group - outer * groups) * rows;
        const Index length = n - begin < run ? n - begin : run, end = m - first < rows ? m : first + rows;
        Index from = b.from + begin * b.from_stride[last], to = b.to + begin * b.to_stride[last];
        add_offsets(b, above, outer, from, to);
        for (Index row = first; row < end; ++row)
          move(from + row * b.from_stride[above], to + row * b.to_stride[above], length);
      });
}

template <typename T>
void copy_rows(const StridedBlock& block, const T* from, T* to) {
  const Index from_step = block.from_stride[block.dims - 1], to_step = block.to_stride[block.dims - 1];
  for_each_run(
      "tessera::copy_block", block, KOKKOS_LAMBDA(Index f, Index t, Index length) {
        const T* source = from + f;
        T* target = to + t;
        if (from_step == 1 && to_step == 1) {
          for (Index i = 0; i < length; ++i) target[i] = source[i];
        } else {
          for (Index i = 0; i < length; ++i) target[i * to_step] = source[i * from_step];
        }
      });
}

template <typename T>
KOKKOS_INLINE_FUNCTION T sum_of(T a, T b) {
  return a + b;
}

KOKKOS_INLINE_FUNCTION bfloat16 sum_of(bfloat16 a, bfloat16 b) {
  return to_bfloat16(to_float(a) + to_float(b));
}

/// `kept` has the dimensions along which the target moves, `summed` those along which it does not; each work
/// item adds all addends of its run of targets.
template <typename T>
void add_rows(const StridedBlock& kept, const StridedBlock& summed, const T* from, T* to) {
  const Index from_step = kept.from_stride[kept.dims - 1], to_step = kept.to_stride[kept.dims - 1];
  const Index addends = summed.volume();
  const StridedBlock s = summed;
  for_each_run(
      "tessera::add_block", kept, KOKKOS_LAMBDA(Index f, Index t, Index length) {
        T* target = to + t;
        for (Index a = 0; a < addends; ++a) {
          Index shift = 0;
          Index unused = 0;
          add_offsets(s, s.dims, a, shift, unused);
          const T* source = from + f + shift;
          if (from_step == 1 && to_step == 1) {
            for (Index i = 0; i < length; ++i) target[i] = sum_of(target[i], source[i]);
          } else {
            for (Index i = 0; i < length; ++i) {
              target[i * to_step] = sum_of(target[i * to_step], source[i * from_step]);
            }
          }
        }
      });
}

}  // namespace

Index StridedBlock::volume() const {
  Index n = 1;
  for (int d = 0; d < dims; ++d) n *= count[d];
  return n;
}

void StridedBlock::push_back(Index elements, Index from_step, Index to_step) {
  require(dims < kMaxDims, "StridedBlock", "more than {} dimensions", kMaxDims);
  count[dims] = elements;
  from_stride[dims] = from_step;
  to_stride[dims] = to_step;
  ++dims;
}

StridedBlock simplify(const StridedBlock& block) {
  StridedBlock result;
  result.from = block.from;
  result.to = block.to;
  for (int d = 0; d < block.dims; ++d) {
    const Index n = block.count[d];
    if (n == 1) continue;
    const int last = result.dims - 1;
    if (last >= 0 && result.from_stride[last] == n * block.from_stride[d] &&
        result.to_stride[last] == n * block.to_stride[d]) {
      result.count[last] *= n;
      result.from_stride[last] = block.from_stride[d];
      result.to_stride[last] = block.to_stride[d];
    } else {
      result.push_back(n, block.from_stride[d], block.to_stride[d]);
    }
  }
  if (result.dims == 0) result.push_back(1, 1, 1);
  return result;
}

StridedBlock reversed(const StridedBlock& block) {
  StridedBlock result = block;
  std::swap(result.from, result.to);
  for (int d = 0; d < block.dims; ++d) std::swap(result.from_stride[d], result.to_stride[d]);
  return result;
}

bool is_dense(const StridedBlock& simplified) {
  return simplified.dims == 1 && simplified.from_stride[0] == 1 && simplified.to_stride[0] == 1;
}

void copy_block(const StridedBlock& block, const void* from, void* to, std::size_t element_size) {
  const auto run = [&]<typename T>(T*) {
    copy_rows(block, static_cast<const T*>(from), static_cast<T*>(to));
  };
  switch (element_size) {
    case 1:
      return run(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return run(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return run(static_cast<std::uint32_t*>(nullptr));
    default:
      return run(static_cast<std::uint64_t*>(nullptr));
  }
}

void add_block(const StridedBlock& block, const void* from, void* to, DType type) {
  StridedBlock kept;
  StridedBlock summed;
  kept.from = block.from;
  kept.to = block.to;
  for (int d = 0; d < block.dims; ++d) {
    (block.to_stride[d] == 0 ? summed : kept)
        .push_back(block.count[d], block.from_stride[d], block.to_stride[d]);
  }
  if (kept.dims == 0) kept.push_back(1, 1, 1);
  const auto run = [&]<typename T>(T*) {
    add_rows(kept, summed, static_cast<const T*>(from), static_cast<T*>(to));
  };
  switch (type) {
    case DType::f32:
      return run(static_cast<float*>(nullptr));
    case DType::f64:
      return run(static_cast<double*>(nullptr));
    case DType::bf16:
      return run(static_cast<bfloat16*>(nullptr));
    case DType::i32:
      return run(static_cast<std::int32_t*>(nullptr));
    case DType::i64:
      return run(static_cast<std::int64_t*>(nullptr));
    case DType::u8:
      fail(ExitCode::internal, "exchange", "elements of type u8 have no adjoint");
  }
}

}  // namespace tessera
