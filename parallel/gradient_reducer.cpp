#include "parallel/gradient_reducer.hpp"

#include <algorithm>
#include <optional>

#include <Kokkos_Core.hpp>

#include "parallel/bfloat16.hpp"
#include "parallel/device_messages.hpp"

namespace tessera {
namespace {

/// Gradients start at multiples of this many bytes, so that kernels on them run as on any block.
constexpr Index kAlignment = 64;

struct Bucket {
  DType type = DType::f32;
  std::size_t limit = 0;     // bytes at which it is closed
  Index elements = 0;        // padding included
  std::vector<int> members;  // parameters, in the order in which they were added
  MemoryBlock memory;
  int missing = 0;  // members that are not ready in this round
  Request request;

  std::size_t bytes() const { return static_cast<std::size_t>(elements) * size_of(type); }
};

template <typename T>
void scale(T* data, Index count, double factor) {
  const T by = static_cast<T>(factor);
  Kokkos::parallel_for(
      "tessera::scale_gradient", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, count),
      KOKKOS_LAMBDA(Index i) { data[i] *= by; });
}

void scale_bfloat16(bfloat16* data, Index count, double factor) {
  const float by = static_cast<float>(factor);
  Kokkos::parallel_for(
      "tessera::scale_gradient", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, count),
      KOKKOS_LAMBDA(Index i) { data[i] = to_bfloat16(to_float(data[i]) * by); });
}

std::string describe(const GradientReducer::Parameter& parameter) {
  return fmt::format("'{}' ({} elements, {})", parameter.name, parameter.elements, name_of(parameter.type));
}

/// What is wrong with this rank's parameters, measured by those of rank 0; the first parameter that differs.
struct Mismatch {
  std::int64_t parameter = 0;
  std::string text;
};

std::optional<Mismatch> compare_with_first_rank(Communicator& comm,
                                                const std::vector<GradientReducer::Parameter>& parameters) {
  std::vector<std::string> own;
  std::string joined;
  for (const GradientReducer::Parameter& p : parameters) {
    own.push_back(describe(p));
    joined += own.back() + '\n';
  }
  joined = comm.broadcast_text(joined);
  std::vector<std::string> first;
  for (std::size_t at = 0; at < joined.size();) {
    const std::size_t end = joined.find('\n', at);
    first.push_back(joined.substr(at, end - at));
    at = end + 1;
  }
  for (std::size_t i = 0; i < std::max(own.size(), first.size()); ++i) {
    const std::string mine = i < own.size() ? own[i] : "nothing";
    const std::string theirs = i < first.size() ? first[i] : "nothing";
    if (mine == theirs) continue;
    return Mismatch{
        static_cast<std::int64_t>(i),
        fmt::format("parameter {} is {} on rank {}, but {} on rank 0", i, mine, comm.rank(), theirs)};
  }
  return std::nullopt;
}

/// Throws the same error on every rank if any rank's parameters differ from those of rank 0.
void check_equal_on_all_ranks(Communicator& comm, const std::vector<GradientReducer::Parameter>& parameters) {
  if (comm.size() == 1) return;
  const std::optional<Mismatch> mismatch = compare_with_first_rank(comm, parameters);
  const int mine = mismatch ? comm.rank() : comm.size();
  const int witness = comm.all_reduce_value(mine, ReduceOp::min);
  if (witness == comm.size()) return;
  const std::string text = comm.broadcast_text(mismatch ? mismatch->text : "", witness);
  fail(ExitCode::internal, "gradient reducer", "{}", text);
}

}  // namespace

struct GradientReducer::Impl {
  CommPtr comm;
  int ddp_size = 1;
  std::vector<Parameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<int> bucket_of;       // by parameter
  std::vector<Index> offset_of;     // by parameter, in elements
  std::vector<std::uint8_t> ready;  // by parameter
  std::size_t next = 0;             // first bucket that has not been sent
  bool finished = false;

  /// The ranks are all ddp replicas: the reduction averages by itself.
  bool averages_all() const { return ddp_size == comm->size(); }
  void fill_buckets(const GradientReducerOptions& options);
  Bucket& open_bucket(DType type, const GradientReducerOptions& options);
  void send_due();
  void set_ready(int i);
};

/// The last bucket of this type, or a new one if there is none or it is full.
Bucket& GradientReducer::Impl::open_bucket(DType type, const GradientReducerOptions& options) {
  const auto last =
      std::find_if(buckets.rbegin(), buckets.rend(), [&](const Bucket& b) { return b.type == type; });
  if (last != buckets.rend() && last->bytes() < last->limit) return *last;
  Bucket& bucket = buckets.emplace_back();
  bucket.type = type;
  bucket.limit = buckets.size() == 1 ? options.first_bucket_bytes : options.bucket_bytes;
  return bucket;
}

void GradientReducer::Impl::fill_buckets(const GradientReducerOptions& options) {
  bucket_of.resize(parameters.size());
  offset_of.resize(parameters.size());
  ready.resize(parameters.size());
  for (int i = static_cast<int>(parameters.size()) - 1; i >= 0; --i) {
    const Parameter& parameter = parameters[static_cast<std::size_t>(i)];
    Bucket& bucket = open_bucket(parameter.type, options);
    bucket_of[static_cast<std::size_t>(i)] = static_cast<int>(&bucket - buckets.data());
    offset_of[static_cast<std::size_t>(i)] = bucket.elements;
    const Index unit = kAlignment / static_cast<Index>(size_of(parameter.type));
    bucket.elements += (parameter.elements + unit - 1) / unit * unit;
    bucket.members.push_back(i);
  }
  for (Bucket& bucket : buckets) bucket.memory = MemoryBlock(MemorySpace::device, bucket.bytes());
}

/// Sends the complete buckets that no incomplete one precedes, and lets those under way progress.
void GradientReducer::Impl::send_due() {
  for (std::size_t b = 0; b < next; ++b) buckets[b].request.test();
  for (; next < buckets.size() && buckets[next].missing == 0; ++next) {
    Bucket& bucket = buckets[next];
    bucket.request = device_all_reduce(*comm, bucket.memory.data(), bucket.elements, bucket.type,
                                       averages_all() ? ReduceOp::avg : ReduceOp::sum);
  }
}

void GradientReducer::Impl::set_ready(int i) {
  ready[static_cast<std::size_t>(i)] = 1;
  --buckets[static_cast<std::size_t>(bucket_of[static_cast<std::size_t>(i)])].missing;
}

GradientReducer::GradientReducer(CommPtr comm, int ddp_size, std::vector<Parameter> parameters,
                                 GradientReducerOptions options)
    : impl_(std::make_shared<Impl>()) {
  const CommScope scope = CommScope::in_place("gradient reducer");
  check_equal_on_all_ranks(*comm, parameters);
  for (const Parameter& p : parameters) {
    require(is_floating(p.type), "gradient reducer", "{} has no gradient", describe(p));
  }
  impl_->comm = std::move(comm);
  impl_->ddp_size = ddp_size;
  impl_->parameters = std::move(parameters);
  impl_->fill_buckets(options);
  zero();
}

void* GradientReducer::gradient(int i) {
  const auto index = static_cast<std::size_t>(i);
  const Bucket& bucket = impl_->buckets[static_cast<std::size_t>(impl_->bucket_of[index])];
  return static_cast<char*>(bucket.memory.data()) +
         static_cast<std::size_t>(impl_->offset_of[index]) * size_of(bucket.type);
}

void GradientReducer::zero() {
  start();
  for (Bucket& bucket : impl_->buckets) zero_bytes(bucket.memory.data(), MemorySpace::device, bucket.bytes());
}

void GradientReducer::start() {
  for (Bucket& bucket : impl_->buckets) {
    bucket.request.wait();  // of a round that was given up
    bucket.missing = static_cast<int>(bucket.members.size());
  }
  std::fill(impl_->ready.begin(), impl_->ready.end(), std::uint8_t{0});
  impl_->next = 0;
  impl_->finished = false;
}

void GradientReducer::mark_ready(int i) {
  if (impl_->ready[static_cast<std::size_t>(i)]) {
    fail(ExitCode::internal, "gradient reducer", "parameter {} became ready twice in one round",
         describe(impl_->parameters[static_cast<std::size_t>(i)]));
  }
  const CommScope scope = CommScope::in_place("gradient reducer");
  impl_->set_ready(i);
  impl_->send_due();
}

void GradientReducer::finish() {
  require(!impl_->finished, "gradient reducer", "finish() twice in one round");
  impl_->finished = true;
  const CommScope scope = CommScope::in_place("gradient reducer");
  for (int i = 0; i < static_cast<int>(impl_->parameters.size()); ++i) {
    if (!impl_->ready[static_cast<std::size_t>(i)]) impl_->set_ready(i);
  }
  impl_->send_due();
  for (Bucket& bucket : impl_->buckets) {
    bucket.request.wait();
    if (impl_->ddp_size == 1 || impl_->averages_all()) continue;
    const double factor = 1.0 / impl_->ddp_size;
    void* data = bucket.memory.data();
    switch (bucket.type) {
      case DType::f32:
        scale(static_cast<float*>(data), bucket.elements, factor);
        break;
      case DType::f64:
        scale(static_cast<double*>(data), bucket.elements, factor);
        break;
      default:
        scale_bfloat16(static_cast<bfloat16*>(data), bucket.elements, factor);
        break;
    }
  }
}

int GradientReducer::buckets() const {
  return static_cast<int>(impl_->buckets.size());
}

}  // namespace tessera
