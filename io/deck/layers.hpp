#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/deck/problems.hpp"
#include "io/deck/raw.hpp"
#include "io/deck/schema.hpp"

// Decks laid over one another: the deck of a checkpoint, then the deck, then the overrides of the command
// line.
namespace tessera::deck_detail {

/// Turns `even` into `{type: even}` where the section has a selector.
void expand_shorthand(const Section& section, RawNode& node);

/// The variant that `node`, a map or nothing, selects: as written, else the default, else empty.
std::string selected_variant(const Section& section, const RawNode& node);

/// The keys that `node` may have: those of every variant and those of the selected one.
std::vector<const SchemaKey*> active_keys(const Section& section, const RawNode& node);

/// Updates `base` by `overlay`. Sections and maps merge key by key, everything else is replaced. A change of
/// variant drops the former variant's keys from `base`.
void merge(const SchemaKey& key, RawNode& base, RawNode overlay);

/// Applies `a.b=value` (also `a/b=value`; entries of lists by index, the index after the last one appends).
/// The value is YAML, or plain text where the key is text, and replaces what was there. A change of variant
/// drops the former variant's keys, save those that overrides gave.
/// @param source the mark of the override; @param first_override the mark of the first one
void apply_override(const Schema& schema, RawNode& root, const std::string& text, int source,
                    int first_override, const std::string& where, Problems& problems);

}  // namespace tessera::deck_detail
