#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/deck/problems.hpp"
#include "io/deck/raw.hpp"
#include "io/deck/schema.hpp"

namespace tessera::deck_detail {

/// A value that the schema has typed. Children of a section stand in the schema's order and are complete:
/// what the deck left out has its default or is null. Entries of a list are named "0", "1", ...
struct DeckNode {
  KeyType type = KeyType::section;
  Mark mark;           ///< of the value, or of what it stands in if a default
  bool given = false;  ///< written somewhere, not a default
  bool null = false;
  std::variant<std::monostate, bool, std::int64_t, double, std::string> value;  ///< monostate for collections
  std::vector<std::pair<std::string, DeckNode>> children;

  const DeckNode* child(std::string_view name) const;
};

/// Types `raw` by the schema and fills in the defaults; faults go to `problems`.
DeckNode check(const Schema& schema, const RawNode& raw, const Mark& start, Problems& problems);

}  // namespace tessera::deck_detail
