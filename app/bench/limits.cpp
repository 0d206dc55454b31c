#include "app/bench/limits.hpp"

#include <fmt/format.h>
#include <Kokkos_Core.hpp>

#include "app/bench/library_rates.hpp"
#include "app/bench/plain_file.hpp"
#include "parallel/memory.hpp"

namespace tessera::bench {
namespace {

constexpr Index kTriadCount = Index{1} << 23;  ///< doubles of an array: 64 MiB

std::function<void()> triad_body() {
  const auto bytes = static_cast<std::size_t>(kTriadCount) * sizeof(double);
  const MemoryBlock blocks[] = {
      {MemorySpace::device, bytes}, {MemorySpace::device, bytes}, {MemorySpace::device, bytes}};
  for (const MemoryBlock& block : blocks) zero_bytes(block.data(), MemorySpace::device, bytes);
  return [a = blocks[0], b = blocks[1], c = blocks[2]] {
    double* to = static_cast<double*>(a.data());
    const double *x = static_cast<double*>(b.data()), *y = static_cast<double*>(c.data());
    constexpr Index block = 4096;
    Kokkos::parallel_for(
        "triad", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, kTriadCount / block),
        KOKKOS_LAMBDA(Index i) {
          for (Index k = i * block; k < (i + 1) * block; ++k) to[k] = x[k] + 3.0 * y[k];
        });
    Kokkos::fence();
  };
}

std::function<void()> message_body(const CommPtr& group, Index bytes, Pattern pattern) {
  constexpr int tag = 7;
  const int rank = group->rank(), size = group->size();
  std::vector<int> to, from;
  if (pattern == Pattern::ring) {
    to = {(rank + 1) % size};
    from = {(rank + size - 1) % size};
  } else {
    if (rank > 0) to.push_back(rank - 1);
    if (rank + 1 < size) to.push_back(rank + 1);
    from = to;
  }
  const auto buffer = [bytes] { return MemoryBlock(MemorySpace::host, static_cast<std::size_t>(bytes)); };
  std::vector<MemoryBlock> out, in;
  for (std::size_t i = 0; i < to.size(); ++i) {
    out.push_back(buffer());
    in.push_back(buffer());
    zero_bytes(out.back().data(), MemorySpace::host, static_cast<std::size_t>(bytes));
  }
  return [=] {
    std::vector<Request> requests;
    for (std::size_t i = 0; i < from.size(); ++i) {
      requests.push_back(group->start_receive(in[i].data(), bytes, DType::u8, from[i], tag));
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      requests.push_back(group->start_send(out[i].data(), bytes, DType::u8, to[i], tag));
    }
    for (Request& request : requests) request.wait();
  };
}

}  // namespace

int messages_of(Pattern pattern, int ranks) {
  if (ranks == 1) return 0;
  return pattern == Pattern::ring ? ranks : 2 * (ranks - 1);
}

double Limits::rate(const std::string& name, double amount,
                    const std::function<std::function<void()>()>& make) {
  if (const auto known = rates_.find(name); known != rates_.end()) return known->second;
  const Timing timing = measure(*group_, make(), options_);
  return rates_[name] = amount / timing.median;
}

double Limits::gemm(DType type) {
  constexpr Index n = 2048;
  const double operations = 2.0 * n * n * n * group_->size();
  return rate(fmt::format("gemm {}", name_of(type)), operations, [&] { return library_gemm(n, type); });
}

double Limits::conv(const ConvShape& shape) {
  const double taps = std::pow(3.0, shape.grid.size());
  const double forward = 2 * static_cast<double>(count(shape.grid)) * taps *
                         static_cast<double>(shape.channels) * static_cast<double>(shape.channels);
  // The ranks' boxes may differ: the group's operations are those of all of them.
  const double operations = group_->all_reduce_value(3 * forward, ReduceOp::sum);
  const std::string name = fmt::format("conv {} {:.0f} {}", shape.channels, operations, name_of(shape.type));
  return rate(name, operations, [&] { return library_conv(shape); });
}

double Limits::triad() {
  const double bytes = 3.0 * sizeof(double) * static_cast<double>(kTriadCount) * group_->size();
  return rate("triad", bytes, triad_body);
}

double Limits::messages(Index bytes, Pattern pattern) {
  const int sent = messages_of(pattern, group_->size());
  if (sent == 0) return 0;
  return rate(fmt::format("messages {} {}", bytes, static_cast<int>(pattern)),
              static_cast<double>(bytes) * sent, [&] { return message_body(group_, bytes, pattern); });
}

double Limits::file(double bytes, Range part, bool uneven, bool reading,
                    const std::filesystem::path& folder) {
  return rate(fmt::format("file {} {} {}", bytes, uneven, reading), bytes,
              [&] { return reading ? plain_read(group_, part, folder) : plain_write(group_, part, folder); });
}

}  // namespace tessera::bench
