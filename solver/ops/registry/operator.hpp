#pragma once

#include <any>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "solver/tensor/tensor.hpp"

// What the library knows of an operator by its name: how its operands have to lie on a mesh so that each rank
// can work by itself, and what moves between ranks. Every operator of the library stands here; programs add
// their own:
//
//     const Operator& kSwish = register_operator({.name = "swish", .signature = "swish(x, beta)",
//                                                 .family = "mine", .cuts = {{"any", Moves::nothing}},
//                                                 .rule = index_rule("..., -> ...")});
//     Tensor swish(const Tensor& x, const Tensor& beta) {
//       const OperatorCall call(kSwish, {x, beta});
//       return apply_locally(call, ...);
//     }
namespace tessera {

/// Layouts under which each rank can do its part of one call of an operator.
struct Sharding {
  /// Of each operand. Without layout: the operand is taken as it is; a plain one stays plain (a weight that
  /// every rank holds whole, say), an undefined one undefined.
  std::vector<Layout> operands;
  /// Of the result, where the rule determines it.
  Layout result = {};
};

/// Says what a call needs, from the shapes and layouts of its operands (some plain, at least one a shard
/// tensor, all on one mesh; optional ones may be undefined) and its parameters. Works alike on all ranks,
/// without communication; looks at no element. No Sharding: this combination of layouts is not supported.
using ShardRule =
    std::function<std::optional<Sharding>(std::span<const Tensor> operands, const std::any& parameters)>;

/// What the forward pass moves between ranks when a dimension is cut.
enum class Moves : std::uint8_t {
  nothing,    ///< each rank works on what it owns
  partial,    ///< nothing now: the result is a pending reduction
  halo,       ///< border elements of the neighbours
  ring,       ///< blocks travel round the group
  exchange,   ///< elements move to the rank that owns their new place, point to point
  reduction,  ///< a few numbers per row, channel or group are combined over the group
  gather,     ///< the dimension is made whole first
};
std::string_view to_string(Moves moves);

/// A kind of dimension ("batch", "grid", "channels", ...) and what cutting it costs.
struct Cut {
  std::string dimension;
  Moves forward = Moves::nothing;
};

struct Operator {
  std::string name;
  std::string signature = {};  ///< as a caller writes it
  std::string family = {};     ///< heading under which it is listed
  std::vector<Cut> cuts = {};
  ShardRule rule = {};  ///< none: every shard operand is made whole first (see Fallback)
};

/// Adds an operator; the reference stays valid. Throws (usage) where the name is taken.
const Operator& register_operator(Operator op);
/// Gives a registered operator another rule. Throws (usage) for an unknown name. Not while calls are under
/// way.
void register_rule(std::string_view name, ShardRule rule);
/// Null for an unknown name.
const Operator* find_operator(std::string_view name);
/// In the order of their names.
std::vector<const Operator*> registered_operators();

}  // namespace tessera
