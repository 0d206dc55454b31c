#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// Reverse-mode differentiation. An operator computes its output under whatever layouts its inputs have and
/// then records how cotangents flow back:
///
///     Tensor y = ...;
///     record("relu", {x}, y, [y](const Tensor& gy) { return Gradients{relu_gradient(y, gy)}; });
///
/// Contracts:
///  - The gradient that `backward` receives has the layout of the output, Partial axes made Replicate: every
///  rank of a
///    Partial or Replicate axis gets the whole cotangent.
///  - The gradients it returns may have any layout on the mesh of the operator: Shard, Replicate, or
///  Partial(sum) for addends
///    (the usual case for weights: see contribution_layout). The engine brings them to the layout of the
///    tensor they belong to. For a plain tensor that met shard tensors this is the SUM over the mesh, counted
///    exactly once.
///  - An undefined gradient means zero. `backward` is linear in the gradient and is called once; it owns its
///  captures, which are freed afterwards. Tensors that it captured must not be written to in place in
///  between; that is an error when it reads them.
///  - Nodes run in the reverse order of their recording, which is the same on all ranks, so they may
///  communicate.
using Gradients = std::vector<Tensor>;
using Backward = std::function<Gradients(const Tensor& grad)>;
using BackwardMulti =
    std::function<Gradients(std::span<const Tensor> grads)>;  ///< several outputs; undefined = zero

/// True if gradients are being recorded and some input takes part.
bool any_requires_grad(std::initializer_list<Tensor> inputs);
bool any_requires_grad(std::span<const Tensor> inputs);

/// Makes `output` the result of a differentiable operator. Does nothing unless any_requires_grad(inputs).
void record(const char* op, std::initializer_list<Tensor> inputs, Tensor& output, Backward backward);
void record(const char* op, std::span<const Tensor> inputs, Tensor& output, Backward backward);
void record_multi(const char* op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                  BackwardMulti backward);

/// While it lives, operators record nothing.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool outer_;
};

/// While it lives, operators record even inside NoGrad.
class EnableGrad {
 public:
  EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool outer_;
};

bool grad_enabled();

/// Runs backward from `outputs` with the given cotangents (undefined: ones for a scalar) and accumulates into
/// leaves. A history serves once: a second pass through any part of it throws (usage) before anything runs.
/// Gradients are constants: a backward pass from anything computed from one is refused (usage), unless it was
/// detached.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> cotangents);
/// Gradients of `output` with respect to chosen tensors, leaves or not, laid out as these; undefined where
/// the output does not depend on them. Leaves accumulate nothing, and only what leads to the chosen tensors
/// runs and is used up.
Gradients gradients(const Tensor& output, std::span<const Tensor> inputs, Tensor cotangent = {});

/// Activation recomputation: runs `body` without recording; its backward pass runs it again, recording, and
/// differentiates. `body` must be a pure function of `inputs` and of the tensors that it takes from outside
/// (parameters, say), whose gradients join those from elsewhere: they accumulate once, and their hooks run
/// once. May be nested. Hooks on tensors made inside are those of the second run.
Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& body, std::span<const Tensor> inputs);

/// Uninitialised storage for an operator's gradient of `parameter`, to be called in its backward pass: where
/// nothing has been accumulated yet, the parameter's own gradient, which saves adding it there. Undefined
/// layout: plain.
Tensor contribution_storage(const Tensor& parameter, const Layout& layout, DType type);

/// The layout of a weight gradient that each rank computed from its part of a tensor laid out as `like`:
/// Partial(sum) where `like` is sharded, Replicate where all ranks of the axis did the same work. Undefined
/// layout for plain `like`.
Layout contribution_layout(const Layout& like, const Shape& weight_shape);

}  // namespace tessera
