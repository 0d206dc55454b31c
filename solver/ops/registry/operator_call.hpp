#pragma once

#include "parallel/comm_stats.hpp"
#include "solver/ops/registry/mode_scope.hpp"
#include "solver/ops/registry/operator.hpp"
#include "solver/tensor/operator_clock.hpp"
#include "solver/tensor/redistribute.hpp"

namespace tessera {

/// What happens when a plain tensor meets a shard tensor: it counts as the same on all ranks (Replicate), and
/// its gradient is the sum over the mesh.
enum class Promotion : std::uint8_t {
  silent,  ///< the default
  warn,    ///< says so on standard error, once per operator and operand
  error,   ///< throws (usage)
};

/// While it lives, calls of this thread treat plain operands so.
using PromotionScope = ModeScope<Promotion>;

/// What happens when an operator has no rule for the layouts of its operands.
enum class Fallback : std::uint8_t {
  replicate,  ///< the default: operands are made whole, every rank computes all; counted in CommStats
  error,      ///< throws MissingShardRule
};

/// While it lives, calls of this thread without a rule do so.
using FallbackScope = ModeScope<Fallback>;

/// No rule covers the layouts of a call; names the operator and the layouts.
class MissingShardRule : public Error {
 public:
  MissingShardRule(const Operator& op, std::span<const Tensor> operands);
};

/// One call of an operator, from its first line to its last: brings the operands to the layouts that the
/// operator's rule asks for (differentiably), and books communication under the operator's name. Where all
/// operands are plain it leaves them alone. Throws (usage) where operands live on different meshes.
class OperatorCall {
 public:
  OperatorCall(const Operator& op, std::span<const Tensor> operands, const std::any& parameters = {});
  OperatorCall(const Operator& op, std::initializer_list<Tensor> operands, const std::any& parameters = {})
      : OperatorCall(op, std::span<const Tensor>(operands.begin(), operands.size()), parameters) {}

  const char* name() const { return op_.name.c_str(); }
  /// The operands where the rule wants them.
  const Tensor& operator[](int i) const { return operands_[static_cast<std::size_t>(i)]; }
  std::span<const Tensor> operands() const { return operands_; }
  /// An operand as a shard tensor (Replicate if it has stayed plain), where any operand is one.
  Tensor on_mesh(int i) const { return mesh_ ? promote((*this)[i], mesh_) : (*this)[i]; }
  /// The layout of the result as the rule has it; undefined where that leaves it open, or all operands are
  /// plain.
  const Layout& result_layout() const { return result_; }
  /// Uninitialised storage for the result, of global shape `shape`; plain where all operands are. Where the
  /// rule leaves its layout open, that of the only operand that is cut or pending, Replicate if none is;
  /// throws (usage) where that operand has another shape, or there are several.
  Tensor empty_result(const Shape& shape, DType type) const;
  /// The layout of an operand's gradient as each rank computes it from its part of the cotangent: as the
  /// operand where that is cut; Partial(sum) on an axis where it is whole and another operand or the result
  /// is cut or pending. Undefined where all operands are plain.
  Layout gradient_layout(int i) const;

 private:
  void place(const Sharding& sharding);
  Sharding fall_back() const;

  const Operator& op_;
  CommScope scope_;
  OperatorTimer timer_;
  Mesh mesh_;  ///< of the shard operands; none if all are plain
  std::vector<Tensor> operands_;
  Layout result_;
};

}  // namespace tessera
