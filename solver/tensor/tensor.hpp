#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parallel/dtype.hpp"
#include "parallel/layout.hpp"
#include "parallel/memory.hpp"

namespace tessera {

class Node;
struct AutogradMeta;

/// An array of numbers in device memory: contiguous, row-major, reference-counted. A tensor with a Layout is
/// a shard tensor: `shape()` is the global shape, and this rank stores the elements of its box
/// (`local_shape()`), or a copy or an addend of them. One without is plain: every rank has its own, or all
/// have the same.
///
/// Tensors are handles: copies share storage, gradient and history. A default-constructed tensor is
/// undefined.
class Tensor {
 public:
  Tensor() = default;

  /// Uninitialised storage for `shape` (global), or for this rank's part of `layout.shape()`.
  static Tensor empty(const Shape& shape, DType type = DType::f32);
  static Tensor empty(const Layout& layout, DType type = DType::f32);
  static Tensor zeros(const Shape& shape, DType type = DType::f32);
  static Tensor zeros(const Layout& layout, DType type = DType::f32);
  /// A shard tensor where there is a layout, else a plain one of this shape.
  static Tensor empty(const Layout& layout, const Shape& shape, DType type);
  static Tensor zeros(const Layout& layout, const Shape& shape, DType type);
  static Tensor full(const Shape& shape, double value, DType type = DType::f32);
  /// Same shape, layout and (unless given) type as `like`.
  static Tensor empty_like(const Tensor& like);
  static Tensor zeros_like(const Tensor& like);
  /// A plain tensor with these values.
  template <typename T>
  static Tensor from_host(std::span<const T> values, const Shape& shape);
  /// A shard tensor whose local part (row-major over the local box) has these values. No communication.
  template <typename T>
  static Tensor from_host(std::span<const T> local_values, const Layout& layout);
  /// Wraps device memory that `owner` keeps alive.
  static Tensor wrap(std::shared_ptr<void> owner, void* data, const Shape& shape, DType type);

  explicit operator bool() const { return impl_ != nullptr; }
  bool defined() const { return impl_ != nullptr; }

  const Shape& shape() const;  ///< global
  Index dim(int d) const { return shape()[d < 0 ? d + ndim() : d]; }
  int ndim() const { return shape().size(); }
  const Shape& local_shape() const;
  Index local_count() const { return count(local_shape()); }
  DType dtype() const;
  const Layout& layout() const;  ///< false-like for a plain tensor
  bool is_shard() const { return static_cast<bool>(layout()); }

  /// Device pointer to the local elements; never dereferenced on the host. Throws if T is not the element
  /// type.
  template <typename T>
  T* data() const;
  void* raw() const;
  std::size_t bytes() const { return static_cast<std::size_t>(local_count()) * size_of(dtype()); }
  /// A copy of the local elements in host memory, converted to T.
  template <typename T>
  std::vector<T> to_host() const;
  /// The value of a tensor with one local element.
  double item() const;
  /// Overwrites the local elements (converted from T).
  template <typename T>
  void copy_from_host(std::span<const T> values) const;
  /// Overwrites the local elements with those of `from` (equal local shape), converted. Not differentiable.
  void copy_from(const Tensor& from) const;
  void zero() const;
  /// Says that the elements have been written to through data() or raw(). A backward pass that needs values
  /// from before throws (usage), as it does after the three calls above.
  void mark_written() const;

  // Views and copies outside the history (not differentiable; the differentiable forms are operators).
  /// Same storage, other plain shape with the same local element count.
  Tensor as_plain(const Shape& local_shape) const;
  Tensor as_plain() const { return as_plain(local_shape()); }
  /// Same storage seen as this rank's part of `layout`.
  Tensor with_layout(const Layout& layout) const;
  /// Elements [begin, begin + count(shape)) of the local storage, as a plain tensor.
  Tensor slice_storage(Index begin, const Shape& shape) const;
  Tensor clone() const;
  Tensor to(DType type) const;

  // Automatic differentiation (see autograd.hpp).
  bool requires_grad() const;
  /// Makes this leaf collect a gradient. Returns *this.
  const Tensor& set_requires_grad(bool value = true) const;
  bool is_leaf() const;
  /// The gradient: same shape and layout (Partial axes reduced); undefined before backward.
  Tensor grad() const;
  void set_grad(Tensor grad) const;
  /// grad() counts as zero from now on; it is overwritten by what comes first, or cleared when it is looked
  /// at.
  void forget_grad() const;
  /// Same storage without history.
  Tensor detach() const;
  /// Differentiates this scalar (one element), or contracts with `cotangent`.
  void backward(Tensor cotangent = {}) const;
  /// Keeps the gradient of a non-leaf.
  void retain_grad() const;
  /// Called with the gradient of this tensor when it is complete, laid out as it (see defer_domain_sum for an
  /// exception); may return a replacement or an undefined tensor.
  void register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// Leaf only: called after the gradient has been accumulated into grad().
  void register_post_accumulate_hook(std::function<void()> hook) const;
  /// Plain leaf only: leave the sum over `domain` to somebody else (a GradientReducer): grad() holds, and
  /// hooks get, this rank's addend. What reaches the leaf through plain tensors alone is the same on all
  /// ranks of `domain` and counts on its first rank. No mesh: every rank's gradient is its own.
  void defer_domain_sum(const Mesh& domain) const;

  /// Identity of the storage and history behind the handle.
  bool same_as(const Tensor& other) const { return impl_ == other.impl_; }

  struct Impl;
  Impl& impl() const { return *impl_; }
  std::weak_ptr<Impl> weak() const { return impl_; }

  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

struct Tensor::Impl {
  std::shared_ptr<void> owner;
  void* data = nullptr;
  Shape shape;        // global
  Shape local_shape;  // of this rank's box
  DType type = DType::f32;
  Layout layout;
  std::shared_ptr<AutogradMeta> autograd;
  std::shared_ptr<std::uint64_t> version =
      std::make_shared<std::uint64_t>(0);  // writes in place, of all handles of the storage
  std::uint64_t seen = 0;                  // of these, when this handle was made or last written through
};

/// Throws (usage) unless the elements are floating. For operators whose kernels do not run where a rank has
/// no elements: all ranks refuse other types alike.
void check_floating(const char* op, const Tensor& tensor);

/// Calls `body` with a null pointer of the C++ type of `type` (float, double or bfloat16); throws for
/// integers.
template <typename Body>
decltype(auto) dispatch_floating(DType type, const char* op, Body&& body) {
  switch (type) {
    case DType::f32:
      return body(static_cast<float*>(nullptr));
    case DType::f64:
      return body(static_cast<double*>(nullptr));
    case DType::bf16:
      return body(static_cast<bfloat16*>(nullptr));
    default:
      fail(ExitCode::internal, op, "found element type {}, expected f32, f64 or bf16", name_of(type));
  }
}

/// "f32 (1, 73, 144, 2) [Shard(1) 0:44:73] on (domain: 2)".
std::string describe(const Tensor& tensor);

}  // namespace tessera
