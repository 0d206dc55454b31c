#include "io/deck/check.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "io/deck/layers.hpp"
#include "io/deck/nearest.hpp"
#include "io/deck/scalar.hpp"

namespace tessera::deck_detail {
namespace {

std::string found_text(const RawNode& node) {
  switch (node.kind) {
    case RawNode::Kind::null:
      return "nothing";
    case RawNode::Kind::list:
      return "a list";
    case RawNode::Kind::map:
      return "a section";
    case RawNode::Kind::scalar:
      break;
  }
  return (node.quoted ? "the text " : "") + quoted(node.text);
}

bool is_free_name(std::string_view name) {
  constexpr std::size_t longest = 64;
  return !name.empty() && name.size() <= longest && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

class Checker {
 public:
  explicit Checker(Problems& problems) : problems_(problems) {}

  /// @param at the place of the key's name, or of what should hold the key if it is missing
  DeckNode check(const SchemaKey& key, const RawNode* raw, const std::string& path, const Mark& at) {
    DeckNode node;
    node.type = key.type();
    node.given = raw && raw->mark.source >= 0;
    node.mark = node.given ? raw->mark : at;
    if (!raw && key.default_value()) raw = &*key.default_value();
    if (!raw && key.is_required()) {
      problems_.add(at, fmt::format("missing key '{}': expected {}{}", path, key.expected(),
                                    key.help().empty() ? "" : " (" + key.help() + ")"));
      return node;
    }
    if ((!raw || raw->is_null()) && key.is_optional()) {
      node.null = true;
      return node;
    }
    switch (key.type()) {
      case KeyType::section:
        check_section(key, raw, path, at, node);
        break;
      case KeyType::map:
        check_map(key, *raw, path, node);
        break;
      case KeyType::list:
        check_list(key, *raw, path, node);
        break;
      default:
        check_scalar(key, *raw, path, node);
        break;
    }
    return node;
  }

 private:
  void wrong_type(const SchemaKey& key, const RawNode& raw, const std::string& path, const DeckNode& node) {
    const std::string name = path.empty() ? "the deck" : "'" + path + "'";
    problems_.add(node.mark, fmt::format("wrong type for {}: found {}, expected {}", name, found_text(raw),
                                         key.expected()));
  }

  void check_section(const SchemaKey& key, const RawNode* raw, const std::string& path, const Mark& at,
                     DeckNode& node) {
    const Section& section = key.section();
    RawNode written = raw ? *raw : RawNode{};
    if (written.mark.source < 0) written.mark = at;
    expand_shorthand(section, written);
    if (written.kind != RawNode::Kind::map && !written.is_null()) return wrong_type(key, *raw, path, node);
    const std::string prefix = path.empty() ? "" : path + ".";
    const auto keys = active_keys(section, written);
    std::vector<std::string> names;
    for (const SchemaKey* k : keys) names.push_back(k->name());
    for (const RawMember& member : written.members) {
      const bool known = std::find(names.begin(), names.end(), member.name) != names.end();
      if (!known) unknown(section, written, member, prefix, names);
    }
    for (const SchemaKey* k : keys) {
      const RawMember* member = written.member(k->name());
      const Mark& place = member && member->mark.source >= 0 ? member->mark : at;
      node.children.emplace_back(k->name(),
                                 check(*k, member ? &member->value : nullptr, prefix + k->name(), place));
    }
  }

  void unknown(const Section& section, const RawNode& written, const RawMember& member,
               const std::string& prefix, const std::vector<std::string>& names) {
    const SchemaKey* elsewhere = section.find_anywhere(member.name);
    if (!elsewhere) return problems_.add_unknown(member.mark, prefix + member.name, names);
    const std::string selected = selected_variant(section, written);
    if (!section.find_variant(selected))
      return;  // the selector's own fault is reported; this key may be right
    for (const Section::Variant& variant : section.variants()) {
      if (!variant.section.find_anywhere(member.name)) continue;
      problems_.add(member.mark,
                    fmt::format("unknown key '{0}{1}' where {0}{2} is '{3}': it belongs to '{4}'", prefix,
                                member.name, section.selector()->name(), selected, variant.name));
      return;
    }
  }

  void check_map(const SchemaKey& key, const RawNode& raw, const std::string& path, DeckNode& node) {
    if (raw.kind != RawNode::Kind::map) return wrong_type(key, raw, path, node);
    check_length(key, raw.members.size(), path, node);
    for (const RawMember& member : raw.members) {
      const Mark& place = member.mark.source >= 0 ? member.mark : node.mark;
      if (!is_free_name(member.name)) {
        problems_.add(
            place, fmt::format("not a name in '{}': found {}, expected at most 64 letters, digits, _ and -",
                               path, quoted(member.name)));
        continue;
      }
      node.children.emplace_back(member.name,
                                 check(key.item(), &member.value, path + "." + member.name, place));
    }
  }

  void check_list(const SchemaKey& key, const RawNode& raw, const std::string& path, DeckNode& node) {
    RawNode single;
    if (key.is_single_allowed() && raw.kind != RawNode::Kind::list && !raw.is_null()) {
      single.items.push_back(raw);
    } else if (raw.kind != RawNode::Kind::list) {
      return wrong_type(key, raw, path, node);
    }
    const std::vector<RawNode>& items = single.items.empty() ? raw.items : single.items;
    check_length(key, items.size(), path, node);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string name = std::to_string(i);
      const Mark& place = items[i].mark.source >= 0 ? items[i].mark : node.mark;
      node.children.emplace_back(name, check(key.item(), &items[i], path + "." + name, place));
    }
  }

  void check_length(const SchemaKey& key, std::size_t length, const std::string& path, const DeckNode& node) {
    if (key.allows_length(length)) return;
    problems_.add(node.mark, fmt::format("wrong length of '{}': found {} entr{}, expected {}", path, length,
                                         length == 1 ? "y" : "ies", key.length_text()));
  }

  void check_scalar(const SchemaKey& key, const RawNode& raw, const std::string& path, DeckNode& node) {
    if (raw.kind != RawNode::Kind::scalar) return wrong_type(key, raw, path, node);
    switch (key.type()) {
      case KeyType::text:
        node.value = raw.text;
        return;
      case KeyType::choice:
        return check_choice(key, raw, path, node);
      case KeyType::duration:
        return number(key, raw, path, node, parse_duration(raw.text));
      default:
        break;
    }
    if (raw.quoted) return wrong_type(key, raw, path, node);
    if (key.type() == KeyType::integer) return number(key, raw, path, node, parse_integer(raw.text));
    if (key.type() == KeyType::real) return number(key, raw, path, node, parse_real(raw.text));
    const auto flag = parse_boolean(raw.text);
    if (!flag) return wrong_type(key, raw, path, node);
    node.value = *flag;
  }

  template <typename T>
  void number(const SchemaKey& key, const RawNode& raw, const std::string& path, DeckNode& node,
              const std::optional<T>& value) {
    if (!value) return wrong_type(key, raw, path, node);
    if (!key.allows(static_cast<double>(*value))) {
      problems_.add(node.mark,
                    fmt::format("'{}' is out of range: found {}, expected {}{}", path, quoted(raw.text),
                                key.range_text().empty() ? "a finite " : "", key.expected()));
      return;
    }
    node.value = *value;
  }

  void check_choice(const SchemaKey& key, const RawNode& raw, const std::string& path, DeckNode& node) {
    const auto& choices = key.choices();
    if (std::find(choices.begin(), choices.end(), raw.text) == choices.end()) {
      const std::string meant = nearest(raw.text, choices);
      problems_.add(node.mark,
                    fmt::format("wrong value of '{}': found {}, expected {}{}", path, quoted(raw.text),
                                key.expected(), meant.empty() ? "" : "; did you mean '" + meant + "'?"));
      return;
    }
    node.value = raw.text;
  }

  Problems& problems_;
};

}  // namespace

const DeckNode* DeckNode::child(std::string_view name) const {
  for (const auto& [candidate, node] : children) {
    if (candidate == name) return &node;
  }
  return nullptr;
}

DeckNode check(const Schema& schema, const RawNode& raw, const Mark& start, Problems& problems) {
  return Checker(problems).check(schema.root_key(), &raw, "", start);
}

}  // namespace tessera::deck_detail
