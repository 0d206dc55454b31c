#include "solver/ops/registry/operator_table.hpp"

#include <map>

#include "solver/ops/registry/operator.hpp"

namespace tessera {

std::string operator_table() {
  std::map<std::string, std::string> families;
  for (const Operator* op : registered_operators()) {
    std::string cuts;
    for (const Cut& cut : op->cuts) {
      cuts += fmt::format("{}{}: {}", cuts.empty() ? "" : "; ", cut.dimension, to_string(cut.forward));
    }
    families[op->family] += fmt::format("| `{}` | `{}` | {} |\n", op->name, op->signature, cuts);
  }
  std::string text;
  for (const auto& [family, rows] : families) {
    text += fmt::format("{}### {}\n\n| operator | call | dimension cut: what moves |\n|---|---|---|\n{}",
                        text.empty() ? "" : "\n", family, rows);
  }
  return text;
}

}  // namespace tessera
