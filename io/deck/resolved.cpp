#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include "io/deck/deck.hpp"
#include "io/deck/scalar.hpp"

namespace tessera {
namespace {

using deck_detail::DeckNode;

/// Whether YAML readers of every version take the bare word for the text that it is.
bool is_plain_word(const std::string& text) {
  if (text.empty() || deck_detail::is_null_text(text) || deck_detail::parse_boolean(text)) return false;
  if (deck_detail::parse_real(text) || parse_duration(text)) return false;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_inner = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-';
  };
  if (!is_letter(text.front())) return false;
  for (const char c : text) {
    if (!is_inner(c)) return false;
  }
  return true;
}

void emit(YAML::Emitter& out, const DeckNode& node);

void emit_text(YAML::Emitter& out, const std::string& text) {
  if (!is_plain_word(text)) out << YAML::DoubleQuoted;
  out << text;
}

void emit_list(YAML::Emitter& out, const DeckNode& node) {
  const bool flow = node.children.empty() || node.children.front().second.type != KeyType::section;
  out << (flow ? YAML::Flow : YAML::Block) << YAML::BeginSeq;
  for (const auto& [name, child] : node.children) emit(out, child);
  out << YAML::EndSeq;
}

void emit_map(YAML::Emitter& out, const DeckNode& node) {
  out << (node.children.empty() ? YAML::Flow : YAML::Block) << YAML::BeginMap;
  for (const auto& [name, child] : node.children) {
    out << YAML::Key;
    emit_text(out, name);
    out << YAML::Value;
    emit(out, child);
  }
  out << YAML::EndMap;
}

void emit(YAML::Emitter& out, const DeckNode& node) {
  if (node.null) {
    out << YAML::Null;
  } else if (node.type == KeyType::list) {
    emit_list(out, node);
  } else if (node.type == KeyType::section || node.type == KeyType::map) {
    emit_map(out, node);
  } else if (const auto* flag = std::get_if<bool>(&node.value)) {
    out << (*flag ? "true" : "false");
  } else if (const auto* whole = std::get_if<std::int64_t>(&node.value)) {
    out << std::to_string(*whole);
  } else if (const auto* real = std::get_if<double>(&node.value)) {
    out << deck_detail::format_real(*real);
  } else {
    emit_text(out, std::get<std::string>(node.value));
  }
}

}  // namespace

std::string Deck::resolved() const {
  YAML::Emitter out;
  out.SetNullFormat(YAML::LowerNull);
  emit(out, *node_);
  require(out.good(), "deck", "the resolved deck could not be written: {}", out.GetLastError());
  return std::string(out.c_str()) + "\n";
}

}  // namespace tessera
