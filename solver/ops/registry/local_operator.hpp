#pragma once

#include "solver/ops/registry/operator_call.hpp"
#include "solver/tensor/autograd.hpp"

namespace tessera {

/// Fills `result` from the operands: plain tensors, this rank's parts.
using LocalForward = std::function<void(std::span<const Tensor> operands, const Tensor& result)>;
/// The gradients of the operands (undefined: zero) from that of the result, all plain, this rank's parts.
using LocalBackward =
    std::function<Gradients(std::span<const Tensor> operands, const Tensor& result, const Tensor& grad)>;

/// Runs an operator whose rule leaves nothing to move (index_rule, keep_rule): each rank runs the local
/// kernel on its parts. `shape` is the global shape of the result (OperatorCall::empty_result). Gradients of
/// operands that are whole where others are cut are summed over the mesh. Empty parts are passed on: kernels
/// must take them.
Tensor apply_locally(const OperatorCall& call, const Shape& shape, const LocalForward& forward,
                     LocalBackward backward);

}  // namespace tessera
