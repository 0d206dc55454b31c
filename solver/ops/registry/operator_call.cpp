#include "solver/ops/registry/operator_call.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "solver/ops/layout_builder.hpp"
#include "solver/ops/registry/rules.hpp"

namespace tessera {
namespace {

/// The mesh of the shard operands; none if all are plain.
Mesh common_mesh(const Operator& op, std::span<const Tensor> operands) {
  Mesh mesh = mesh_of(operands);
  for (const Tensor& t : operands) {
    if (t && t.is_shard() && !(t.layout().mesh() == mesh)) {
      fail(ExitCode::usage, op.name, "operands live on different meshes: found {}, expected one on {}",
           describe(t), to_string(mesh));
    }
  }
  return mesh;
}

void note_promotion(const Operator& op, std::size_t operand, const Tensor& t, const Mesh& mesh) {
  if (PromotionScope::current() == Promotion::silent) return;
  const std::string text = fmt::format("operand {} is plain: found {}, expected a shard tensor on {}",
                                       operand, describe(t), to_string(mesh));
  if (PromotionScope::current() == Promotion::error) fail(ExitCode::usage, op.name, "{}", text);
  thread_local std::set<std::pair<std::string, std::size_t>> said;
  if (mesh.rank() == 0 && said.emplace(op.name, operand).second) {
    std::fprintf(stderr, "[%s] %s; taken as the same on all ranks\n", op.name.c_str(), text.c_str());
  }
}

std::string list(std::span<const Tensor> operands) {
  std::string text;
  for (const Tensor& t : operands) {
    if (!text.empty()) text += ", ";
    text += t ? describe(t) : "none";
  }
  return text;
}

}  // namespace

MissingShardRule::MissingShardRule(const Operator& op, std::span<const Tensor> operands)
    : Error(ExitCode::usage, op.name,
            "no sharding rule for these layouts: found " + list(operands) +
                ", expected layouts that its rule covers, or the fallback allowed") {}

OperatorCall::OperatorCall(const Operator& op, std::span<const Tensor> operands, const std::any& parameters)
    : op_(op),
      scope_(op.name),
      timer_(op.name, false),
      mesh_(common_mesh(op, operands)),
      operands_(operands.begin(), operands.end()) {
  if (!mesh_) return;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i] && !operands_[i].is_shard()) note_promotion(op, i, operands_[i], mesh_);
  }
  std::optional<Sharding> sharding;
  if (op.rule) sharding = op.rule(operands_, parameters);
  if (!sharding) sharding = fall_back();
  place(*sharding);
}

Sharding OperatorCall::fall_back() const {
  if (FallbackScope::current() == Fallback::error) throw MissingShardRule(op_, operands_);
  CommStats::global().record(CommStats::kFallback, 0, 0);
  Sharding sharding;
  for (const Tensor& t : operands_) {
    sharding.operands.push_back(t && t.is_shard() ? Layout::replicated(mesh_, t.shape()) : Layout());
  }
  return sharding;
}

void OperatorCall::place(const Sharding& sharding) {
  require(sharding.operands.size() == operands_.size(), op_.name.c_str(),
          "the rule names {} operands, the call has {}", sharding.operands.size(), operands_.size());
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    Tensor& t = operands_[i];
    const Layout& wanted = sharding.operands[i];
    if (!t || !wanted) continue;
    // A plain one that stays whole stays plain: its gradient is then summed once, at the leaf.
    if (!t.is_shard() && wanted.is_replicated()) continue;
    t = redistribute(promote(t, mesh_), wanted);
  }
  result_ = sharding.result;
}

Tensor OperatorCall::empty_result(const Shape& shape, DType type) const {
  if (!mesh_) return Tensor::empty(shape, type);
  if (result_) return Tensor::empty(result_, type);
  Layout layout = Layout::replicated(mesh_, shape);
  int deciding = 0;
  for (const Tensor& t : operands_) {
    if (!t || !t.is_shard() || t.layout().is_replicated()) continue;
    layout = t.layout();
    ++deciding;
  }
  if (deciding > 1 || layout.shape() != shape) {
    fail(ExitCode::usage, op_.name, "the rule does not say how the result {} lies: found {}",
         to_string(shape), list(operands_));
  }
  return Tensor::empty(layout, type);
}

Layout OperatorCall::gradient_layout(int i) const {
  const Tensor& own = (*this)[i];
  if (!mesh_) return {};
  LayoutBuilder builder(mesh_, own.shape());
  for (int a = 0; a < mesh_.axes(); ++a) {
    if (own.is_shard() && own.layout().placement(a).is_shard()) {
      builder.like(own.layout(), a);
      continue;
    }
    const auto divides_work = [a](const Layout& l) { return l && !l.placement(a).is_replicate(); };
    const bool divided =
        divides_work(result_) || std::any_of(operands_.begin(), operands_.end(),
                                             [&](const Tensor& t) { return t && divides_work(t.layout()); });
    if (divided) builder.partial(a);
  }
  return builder.build();
}

}  // namespace tessera
