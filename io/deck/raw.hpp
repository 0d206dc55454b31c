#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/deck/scalar.hpp"

// A deck as written, before the schema gives it types: scalars are still text. Defaults of the schema, decks
// and overrides all take this form, so that one path checks them all.
namespace tessera::deck_detail {

/// Where a node was written. `source` counts the deck texts and then the overrides; -1 is a default of the
/// schema. Lines and columns count from 1; line 0 means that the source has no lines (the command line).
struct Mark {
  int source = -1;
  int line = 0;
  int column = 0;
};

struct RawMember;

struct RawNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  bool quoted = false;  ///< a quoted scalar is text, never a number, a truth value or null
  std::string text;
  Mark mark;
  std::vector<RawNode> items;
  std::vector<RawMember> members;  ///< in the order written

  bool is_null() const { return kind == Kind::null; }
  RawNode* find(std::string_view name);
  const RawNode* find(std::string_view name) const;
  const RawMember* member(std::string_view name) const;
};

struct RawMember {
  std::string name;
  Mark mark;  ///< of the name
  RawNode value;
};

/// Bounds on a deck's text, which is not trusted.
struct RawLimits {
  static constexpr std::size_t bytes = std::size_t{2}
                                       << 20;  ///< of the text, and of it with its aliases replaced
  static constexpr std::size_t depth = 32;
  static constexpr std::size_t nodes = 200'000;  ///< with aliases replaced by what they stand for
  static constexpr std::size_t anchors = 100;
};

/// Parses one YAML document. Anchors and aliases are replaced by copies.
/// @param where name of the text in messages, for example `deck inputs/winds.yaml`
/// Throws Error(usage): not YAML, over the limits, a duplicate key, a key that is not a scalar, a tag, two
/// documents.
RawNode parse_yaml(const std::string& text, int source, const std::string& where);

/// `where` with the line and column of `mark`, where it has them.
std::string located(const std::string& where, const Mark& mark);

/// Gives every node below `node` the same mark.
void set_marks(RawNode& node, const Mark& mark);

inline RawNode raw_scalar(std::string text, bool quoted) {
  RawNode node;
  node.kind = RawNode::Kind::scalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

inline RawNode raw_value(bool value) {
  return raw_scalar(value ? "true" : "false", false);
}
template <std::integral T>
RawNode raw_value(T value) {
  return raw_scalar(std::to_string(value), false);
}
template <std::floating_point T>
RawNode raw_value(T value) {
  return raw_scalar(format_real(value), false);
}
inline RawNode raw_value(std::string_view value) {
  return raw_scalar(std::string(value), true);
}
inline RawNode raw_value(const char* value) {
  return raw_scalar(value, true);
}
inline RawNode raw_value(const std::string& value) {
  return raw_scalar(value, true);
}

template <typename T>
RawNode raw_value(const std::vector<T>& values) {
  RawNode node;
  node.kind = RawNode::Kind::list;
  for (const T& value : values) node.items.push_back(raw_value(value));
  return node;
}

template <typename T>
RawNode raw_value(const std::vector<std::pair<std::string, T>>& values) {
  RawNode node;
  node.kind = RawNode::Kind::map;
  for (const auto& [name, value] : values) node.members.push_back({name, {}, raw_value(value)});
  return node;
}

}  // namespace tessera::deck_detail
