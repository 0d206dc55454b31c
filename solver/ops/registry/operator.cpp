#include "solver/ops/registry/operator.hpp"

#include <map>
#include <mutex>

namespace tessera {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, Operator, std::less<>> operators;
};

/// Made on first use: operators of the library are registered before main().
Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

std::string_view to_string(Moves moves) {
  switch (moves) {
    case Moves::nothing:
      return "local";
    case Moves::partial:
      return "local, result Partial";
    case Moves::halo:
      return "halo";
    case Moves::ring:
      return "ring";
    case Moves::exchange:
      return "exchange";
    case Moves::reduction:
      return "reduction";
    case Moves::gather:
      return "made whole";
  }
  return "";
}

const Operator& register_operator(Operator op) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::string name = op.name;
  const auto [at, is_new] = r.operators.try_emplace(std::move(name), std::move(op));
  if (!is_new) fail(ExitCode::usage, at->first, "an operator of this name is registered already");
  return at->second;
}

void register_rule(std::string_view name, ShardRule rule) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.operators.find(name);
  if (at == r.operators.end()) fail(ExitCode::usage, std::string(name), "found no operator of this name");
  at->second.rule = std::move(rule);
}

const Operator* find_operator(std::string_view name) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.operators.find(name);
  return at == r.operators.end() ? nullptr : &at->second;
}

std::vector<const Operator*> registered_operators() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::vector<const Operator*> all;
  for (const auto& [name, op] : r.operators) all.push_back(&op);
  return all;
}

}  // namespace tessera
