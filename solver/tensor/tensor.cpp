#include "solver/tensor/tensor.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "solver/tensor/node.hpp"
#include "solver/tensor/numeric.hpp"

namespace tessera {

namespace {

thread_local const char* t_backward_op = nullptr;

Tensor make(Tensor::Impl impl) {
  return Tensor(std::make_shared<Tensor::Impl>(std::move(impl)));
}

/// Calls `body` with a null pointer of the C++ type of `type`, integers included.
template <typename Body>
decltype(auto) dispatch(DType type, Body&& body) {
  switch (type) {
    case DType::f32:
      return body(static_cast<float*>(nullptr));
    case DType::f64:
      return body(static_cast<double*>(nullptr));
    case DType::bf16:
      return body(static_cast<bfloat16*>(nullptr));
    case DType::i32:
      return body(static_cast<std::int32_t*>(nullptr));
    case DType::i64:
      return body(static_cast<std::int64_t*>(nullptr));
    default:
      return body(static_cast<std::uint8_t*>(nullptr));
  }
}

template <typename To, typename From>
void convert(To* to, const From* from, Index n) {
  for_each(
      "convert", n, KOKKOS_LAMBDA(Index i) { store(to[i], load(from[i])); });
}

void convert_any(const Tensor& to, const Tensor& from) {
  dispatch(to.dtype(), [&]<typename To>(To*) {
    dispatch(from.dtype(), [&]<typename From>(From*) {
      convert(static_cast<To*>(to.raw()), static_cast<const From*>(from.raw()), to.local_count());
    });
  });
}

template <typename T>
void fill(T* data, Index n, double value) {
  for_each(
      "fill", n, KOKKOS_LAMBDA(Index i) { store(data[i], value); });
}

/// Throws where an extent is negative or the elements of `shape` are too many to count in bytes.
void check_extents(const Shape& shape) {
  constexpr Index most = std::numeric_limits<Index>::max() / 8;
  Index n = 1;
  for (Index extent : shape) {
    require(extent >= 0, "Tensor", "negative extent in {}", to_string(shape));
    if (extent > 0 && n > most / extent) {
      fail(ExitCode::usage, "Tensor", "shape {} has more elements than can be addressed", to_string(shape));
    }
    n *= std::max<Index>(extent, 1);
  }
}

Tensor allocate(const Shape& shape, const Shape& local_shape, DType type, const Layout& layout) {
  check_extents(shape);
  const Index n = count(local_shape);
  Tensor::Impl impl;
  if (n > 0) {
    const MemoryBlock block(MemorySpace::device, static_cast<std::size_t>(n) * size_of(type));
    impl.owner = block.handle();
    impl.data = block.data();
  }
  impl.shape = shape;
  impl.local_shape = local_shape;
  impl.type = type;
  impl.layout = layout;
  return make(std::move(impl));
}

Tensor::Impl alias(const Tensor& t) {
  Tensor::Impl impl = t.impl();
  impl.autograd.reset();
  if (!t_backward_op) impl.seen = *impl.version;
  return impl;
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType type) {
  return allocate(shape, shape, type, {});
}

Tensor Tensor::empty(const Layout& layout, DType type) {
  return allocate(layout.shape(), layout.local_shape(), type, layout);
}

Tensor Tensor::zeros(const Shape& shape, DType type) {
  Tensor t = empty(shape, type);
  t.zero();
  return t;
}

Tensor Tensor::zeros(const Layout& layout, DType type) {
  Tensor t = empty(layout, type);
  t.zero();
  return t;
}

Tensor Tensor::empty(const Layout& layout, const Shape& shape, DType type) {
  return layout ? empty(layout, type) : empty(shape, type);
}

Tensor Tensor::zeros(const Layout& layout, const Shape& shape, DType type) {
  return layout ? zeros(layout, type) : zeros(shape, type);
}

Tensor Tensor::full(const Shape& shape, double value, DType type) {
  Tensor t = empty(shape, type);
  dispatch(type, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    fill(static_cast<T*>(t.raw()), t.local_count(), value);
  });
  return t;
}

Tensor Tensor::empty_like(const Tensor& like) {
  return allocate(like.shape(), like.local_shape(), like.dtype(), like.layout());
}

Tensor Tensor::zeros_like(const Tensor& like) {
  Tensor t = empty_like(like);
  t.zero();
  return t;
}

template <typename T>
Tensor Tensor::from_host(std::span<const T> values, const Shape& shape) {
  Tensor t = empty(shape, dtype_of<T>);
  t.copy_from_host(values);
  return t;
}

template <typename T>
Tensor Tensor::from_host(std::span<const T> local_values, const Layout& layout) {
  Tensor t = empty(layout, dtype_of<T>);
  t.copy_from_host(local_values);
  return t;
}

Tensor Tensor::wrap(std::shared_ptr<void> owner, void* data, const Shape& shape, DType type) {
  Impl impl;
  impl.owner = std::move(owner);
  impl.data = data;
  impl.shape = impl.local_shape = shape;
  impl.type = type;
  return make(std::move(impl));
}

const Shape& Tensor::shape() const {
  return impl_->shape;
}
const Shape& Tensor::local_shape() const {
  return impl_->local_shape;
}
DType Tensor::dtype() const {
  return impl_->type;
}
const Layout& Tensor::layout() const {
  return impl_->layout;
}
void* Tensor::raw() const {
  check_unmodified(*this);
  return impl_->data;
}

template <typename T>
T* Tensor::data() const {
  require(impl_ != nullptr, "Tensor", "undefined tensor");
  require(impl_->type == dtype_of<T>, "Tensor", "found element type {}, expected {}", name_of(impl_->type),
          name_of(dtype_of<T>));
  check_unmodified(*this);
  return static_cast<T*>(impl_->data);
}

template <typename T>
std::vector<T> Tensor::to_host() const {
  const Tensor converted = to(dtype_of<T>);
  std::vector<T> values(static_cast<std::size_t>(local_count()));
  copy_bytes(values.data(), MemorySpace::host, converted.raw(), MemorySpace::device, converted.bytes());
  return values;
}

double Tensor::item() const {
  require(local_count() == 1, "item", "found {} elements, expected 1", local_count());
  return to_host<double>().front();
}

template <typename T>
void Tensor::copy_from_host(std::span<const T> values) const {
  require(static_cast<Index>(values.size()) == local_count(), "Tensor", "found {} values for local shape {}",
          values.size(), to_string(local_shape()));
  if (dtype() == dtype_of<T>) {
    copy_bytes(impl_->data, MemorySpace::device, values.data(), MemorySpace::host, bytes());
    return mark_written();
  }
  Tensor staged = empty(local_shape(), dtype_of<T>);
  staged.copy_from_host(values);
  copy_from(staged);
}

void Tensor::copy_from(const Tensor& from) const {
  require(from.local_shape() == local_shape(), "copy_from", "found {}, expected {}", describe(from),
          describe(*this));
  if (from.dtype() == dtype())
    copy_bytes(impl_->data, MemorySpace::device, from.raw(), MemorySpace::device, bytes());
  else
    convert_any(*this, from);
  mark_written();
}

void Tensor::zero() const {
  zero_bytes(impl_->data, MemorySpace::device, bytes());
  mark_written();
}

void Tensor::mark_written() const {
  // What a backward pass writes is its own.
  if (!t_backward_op) impl_->seen = ++*impl_->version;
}

void check_unmodified(const Tensor& t) {
  if (!t_backward_op || t.impl().seen == *t.impl().version) return;
  fail(ExitCode::usage, t_backward_op,
       "the backward pass needs the values of {}, which has been written to in place since the forward pass",
       describe(t));
}

BackwardScope::BackwardScope(const char* op) : outer_(t_backward_op) {
  t_backward_op = op;
}

BackwardScope::~BackwardScope() {
  t_backward_op = outer_;
}

Tensor Tensor::as_plain(const Shape& shape) const {
  require(count(shape) == local_count(), "as_plain", "found local shape {}, expected the element count of {}",
          to_string(local_shape()), to_string(shape));
  Impl impl = alias(*this);
  impl.shape = impl.local_shape = shape;
  impl.layout = {};
  return make(std::move(impl));
}

Tensor Tensor::with_layout(const Layout& layout) const {
  if (!layout) return as_plain();
  require(count(layout.local_shape()) == local_count(), "with_layout", "found local shape {}, expected {}",
          to_string(local_shape()), to_string(layout.local_shape()));
  Impl impl = alias(*this);
  impl.shape = layout.shape();
  impl.local_shape = layout.local_shape();
  impl.layout = layout;
  return make(std::move(impl));
}

Tensor Tensor::slice_storage(Index begin, const Shape& shape) const {
  require(begin >= 0 && begin + count(shape) <= local_count(), "slice_storage",
          "[{}, {}) outside {} elements", begin, begin + count(shape), local_count());
  Impl impl = alias(*this);
  impl.data = static_cast<char*>(impl.data) + static_cast<std::size_t>(begin) * size_of(dtype());
  impl.shape = impl.local_shape = shape;
  impl.layout = {};
  return make(std::move(impl));
}

Tensor Tensor::clone() const {
  Tensor t = empty_like(*this);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(DType type) const {
  if (type == dtype()) return detach();
  Tensor t = allocate(shape(), local_shape(), type, layout());
  convert_any(t, *this);
  return t;
}

Tensor Tensor::detach() const {
  return make(alias(*this));
}

void check_floating(const char* op, const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) {
    fail(ExitCode::usage, op, "found element type {}, expected f32, f64 or bf16", name_of(tensor.dtype()));
  }
}

std::string describe(const Tensor& tensor) {
  if (!tensor) return "undefined";
  if (tensor.is_shard()) return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.layout()));
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

#define TESSERA_INSTANTIATE(T)                                            \
  template T* Tensor::data<T>() const;                                    \
  template std::vector<T> Tensor::to_host<T>() const;                     \
  template void Tensor::copy_from_host<T>(std::span<const T>) const;      \
  template Tensor Tensor::from_host<T>(std::span<const T>, const Shape&); \
  template Tensor Tensor::from_host<T>(std::span<const T>, const Layout&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(bfloat16)
TESSERA_INSTANTIATE(std::int32_t)
TESSERA_INSTANTIATE(std::int64_t)
TESSERA_INSTANTIATE(std::uint8_t)
#undef TESSERA_INSTANTIATE

}  // namespace tessera
