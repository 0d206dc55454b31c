#include "solver/ops/registry/rules.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "solver/ops/layout_builder.hpp"

namespace tessera {
namespace {

/// Names of the dimensions of one operand, or of the result. Dimensions under `...` are named "-1", "-2", ...
/// from the right.
struct Term {
  bool has_ellipsis = false;
  std::vector<std::string> names;
};

struct Equation {
  std::vector<Term> operands;
  Term result;
  std::vector<std::string> whole;  ///< dimensions that may not be cut
};

Term parse_term(const std::string& text, std::vector<std::string>& whole) {
  Term term;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "...") {
      if (term.has_ellipsis || !term.names.empty()) {
        fail(ExitCode::usage, "index_rule", "found `{}`, expected `...` in front", text);
      }
      term.has_ellipsis = true;
      continue;
    }
    if (word[0] == '!') {
      word.erase(0, 1);
      whole.push_back(word);
    }
    if (word.empty() || !std::isalpha(static_cast<unsigned char>(word[0]))) {
      fail(ExitCode::usage, "index_rule", "found `{}` in `{}`, expected a name", word, text);
    }
    if (std::find(term.names.begin(), term.names.end(), word) != term.names.end()) {
      fail(ExitCode::usage, "index_rule", "found `{}` twice in `{}`, expected each name once", word, text);
    }
    term.names.push_back(word);
  }
  return term;
}

Equation parse(const std::string& text) {
  const std::size_t arrow = text.find("->");
  if (arrow == std::string::npos) {
    fail(ExitCode::usage, "index_rule", "found `{}`, expected `operands -> result`", text);
  }
  Equation e;
  std::istringstream operands(text.substr(0, arrow));
  for (std::string term; std::getline(operands, term, ',');) {
    e.operands.push_back(parse_term(term, e.whole));
  }
  e.result = parse_term(text.substr(arrow + 2), e.whole);
  return e;
}

/// The names of all dimensions of an operand with `dims` of them.
std::vector<std::string> names_of(const Term& term, int dims) {
  const int leading = dims - static_cast<int>(term.names.size());
  if (leading < 0 || (leading > 0 && !term.has_ellipsis)) {
    fail(ExitCode::usage, "index_rule", "found {} dimensions, expected {}{}", dims, term.names.size(),
         term.has_ellipsis ? " or more" : "");
  }
  std::vector<std::string> names;
  for (int d = 0; d < leading; ++d) names.push_back(std::to_string(d - leading));
  names.insert(names.end(), term.names.begin(), term.names.end());
  return names;
}

/// Extents and cut points met in one call.
class Solution {
 public:
  Solution(const Equation& equation, std::span<const Tensor> operands) : operands_(operands) {
    int most = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i]) {
        names_.emplace_back();
        continue;
      }
      names_.push_back(names_of(equation.operands[i], operands[i].ndim()));
      if (equation.operands[i].has_ellipsis) {
        most = std::max(most, operands[i].ndim() - static_cast<int>(equation.operands[i].names.size()));
      }
      for (int d = 0; d < operands[i].ndim(); ++d) meet(names_[i][index(d)], operands[i].dim(d));
    }
    const int leading = equation.result.has_ellipsis ? most : 0;
    result_names_ = names_of(equation.result, leading + static_cast<int>(equation.result.names.size()));
    taken_ = equation.whole;
  }

  Sharding solve() {
    const Mesh mesh = mesh_of(operands_);
    std::vector<LayoutBuilder> builders;
    for (const Tensor& t : operands_) builders.emplace_back(mesh, t ? t.shape() : Shape{});
    Shape shape;
    for (const std::string& name : result_names_) shape.push_back(extent_of(name));
    LayoutBuilder result(mesh, shape);
    for (int a = 0; a < mesh.axes(); ++a) cut(a, builders, result);
    Sharding sharding;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      sharding.operands.push_back(operands_[i] ? builders[i].build() : Layout());
    }
    sharding.result = result.build();
    return sharding;
  }

 private:
  static std::size_t index(int d) { return static_cast<std::size_t>(d); }

  void meet(const std::string& name, Index extent) {
    const auto at =
        std::find_if(extents_.begin(), extents_.end(), [&](const auto& e) { return e.first == name; });
    if (at == extents_.end())
      extents_.emplace_back(name, extent);
    else if (at->second == 1)
      at->second = extent;
    else if (extent != 1 && extent != at->second)
      fail(ExitCode::usage, "index_rule", "dimension {} has extent {} and {}", name, at->second, extent);
  }

  Index extent_of(const std::string& name) const {
    const auto at =
        std::find_if(extents_.begin(), extents_.end(), [&](const auto& e) { return e.first == name; });
    if (at == extents_.end()) {
      fail(ExitCode::usage, "index_rule", "dimension {} of the result is that of no operand", name);
    }
    return at->second;
  }

  /// Where an operand runs over a dimension: -1 if it does not, or is stretched along it.
  int find(std::size_t i, const std::string& name) const {
    const auto at = std::find(names_[i].begin(), names_[i].end(), name);
    if (at == names_[i].end()) return -1;
    const int d = static_cast<int>(at - names_[i].begin());
    return operands_[i].dim(d) == extent_of(name) ? d : -1;
  }

  /// Operands, the largest first.
  std::vector<std::size_t> by_size() const {
    std::vector<std::size_t> order(operands_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto size = [&](std::size_t i) { return operands_[i] ? count(operands_[i].shape()) : -1; };
      return size(a) > size(b);
    });
    return order;
  }

  void cut(int axis, std::vector<LayoutBuilder>& builders, LayoutBuilder& result) {
    for (const std::size_t i : by_size()) {
      const Tensor& t = operands_[i];
      if (!t || !t.is_shard() || !t.layout().placement(axis).is_shard()) continue;
      const std::string& name = names_[i][index(t.layout().placement(axis).dim)];
      if (find(i, name) < 0 || std::find(taken_.begin(), taken_.end(), name) != taken_.end()) continue;
      taken_.push_back(name);
      const Partition& cuts = t.layout().partition(axis);
      for (std::size_t j = 0; j < operands_.size(); ++j) {
        const int d = operands_[j] ? find(j, name) : -1;
        if (d >= 0) builders[j].shard(axis, d, cuts);
      }
      const auto at = std::find(result_names_.begin(), result_names_.end(), name);
      if (at == result_names_.end())
        result.partial(axis);
      else
        result.shard(axis, static_cast<int>(at - result_names_.begin()), cuts);
      return;
    }
  }

  std::span<const Tensor> operands_;
  std::vector<std::vector<std::string>> names_;
  std::vector<std::string> result_names_;
  std::vector<std::pair<std::string, Index>> extents_;
  std::vector<std::string> taken_;
};

}  // namespace

Mesh mesh_of(std::span<const Tensor> operands) {
  for (const Tensor& t : operands) {
    if (t && t.is_shard()) return t.layout().mesh();
  }
  return {};
}

Layout layout_on(const Mesh& mesh, const Tensor& operand) {
  return operand.is_shard() ? operand.layout() : Layout::replicated(mesh, operand.shape());
}

ShardRule keep_rule() {
  return [](std::span<const Tensor> operands, const std::any&) {
    Sharding sharding;
    for (const Tensor& t : operands) {
      sharding.operands.push_back(t && t.is_shard() ? t.layout().reduced() : Layout());
    }
    return std::optional(sharding);
  };
}

ShardRule keep_pending_rule() {
  return [](std::span<const Tensor> operands, const std::any&) {
    return std::optional(Sharding{std::vector<Layout>(operands.size()), {}});
  };
}

ShardRule index_rule(std::string_view text) {
  return [equation = parse(std::string(text))](std::span<const Tensor> operands, const std::any&) {
    require(operands.size() == equation.operands.size(), "index_rule", "found {} operands, expected {}",
            operands.size(), equation.operands.size());
    return std::optional(Solution(equation, operands).solve());
  };
}

}  // namespace tessera
