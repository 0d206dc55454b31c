#include "io/deck/layers.hpp"

#include <algorithm>
#include <charconv>
#include <functional>

#include "io/deck/scalar.hpp"
#include "parallel/error.hpp"

namespace tessera::deck_detail {
namespace {

void drop_variant_keys(const Section& section, RawNode& node,
                       const std::function<bool(const Mark&)>& is_old) {
  std::erase_if(node.members, [&](const RawMember& member) {
    return !section.find(member.name) && section.find_anywhere(member.name) && is_old(member.mark);
  });
}

const SchemaKey* find_active(const Section& section, const RawNode& node, std::string_view name) {
  for (const SchemaKey* key : active_keys(section, node)) {
    if (key->name() == name) return key;
  }
  return section.find_anywhere(name);
}

RawMember& member_of(RawNode& node, const std::string& name, const Mark& mark) {
  for (RawMember& member : node.members) {
    if (member.name == name) return member;
  }
  return node.members.emplace_back(RawMember{name, mark, {}});
}

void merge_section(const Section& section, RawNode& base, RawNode overlay) {
  if (const SchemaKey* selector = section.selector(); selector && overlay.find(selector->name())) {
    if (selected_variant(section, overlay) != selected_variant(section, base)) {
      drop_variant_keys(section, base, [](const Mark&) { return true; });
    }
  }
  for (RawMember& from : overlay.members) {
    RawMember& to = member_of(base, from.name, from.mark);
    to.mark = from.mark;
    if (const SchemaKey* key = find_active(section, overlay, from.name)) {
      merge(*key, to.value, std::move(from.value));
    } else {
      to.value = std::move(from.value);
    }
  }
}

/// Walks down one override's path, making the nodes that are not there yet.
class Walk {
 public:
  Walk(const Schema& schema, RawNode& root, const Mark& mark, Problems& problems)
      : mark_(mark), problems_(problems), node_(&root), key_(&schema.root_key()) {}

  const SchemaKey& key() const { return *key_; }

  /// Replaces the node that the walk has come to.
  void assign(RawNode value, int first_override) {
    if (section_ && section_->selector() == key_ &&
        selected_variant(*section_, *section_node_) != value.text) {
      drop_variant_keys(*section_, *section_node_,
                        [&](const Mark& mark) { return mark.source < first_override; });
    }
    if (section_) {
      RawMember& member = member_of(*section_node_, key_->name(), mark_);
      member.mark = mark_;
      node_ = &member.value;
    }
    *node_ = std::move(value);
  }

  /// False, and a problem, when there is no such key.
  bool step(const std::string& name) {
    const std::string path = path_.empty() ? name : path_ + "." + name;
    section_ = nullptr;
    const bool found = key_->type() == KeyType::section ? step_section(name, path)
                       : key_->type() == KeyType::map   ? step_map(name)
                       : key_->type() == KeyType::list  ? step_list(name, path)
                                                        : step_scalar(path);
    path_ = path;
    return found;
  }

 private:
  /// Makes the present node a collection. False if it is something else: checking the deck reports that
  /// later.
  bool open(RawNode::Kind kind) {
    if (!node_->is_null() && node_->kind != kind) return false;
    node_->kind = kind;
    if (node_->mark.source < 0) node_->mark = mark_;
    return true;
  }

  bool step_section(const std::string& name, const std::string& path) {
    const Section& section = key_->section();
    expand_shorthand(section, *node_);
    if (!open(RawNode::Kind::map)) return false;
    const SchemaKey* next = find_active(section, *node_, name);
    if (!next) {
      std::vector<std::string> siblings;
      for (const SchemaKey* key : active_keys(section, *node_)) siblings.push_back(key->name());
      problems_.add_unknown(mark_, path, siblings);
      return false;
    }
    const bool absent = !node_->find(name);
    RawMember& member = member_of(*node_, name, mark_);
    if (absent && next->default_value()) member.value = *next->default_value();
    section_ = &section;
    section_node_ = node_;
    enter(member.value, *next);
    return true;
  }

  bool step_map(const std::string& name) {
    if (!open(RawNode::Kind::map)) return false;
    enter(member_of(*node_, name, mark_).value, key_->item());
    return true;
  }

  bool step_list(const std::string& name, const std::string& path) {
    if (node_->kind == RawNode::Kind::scalar && key_->is_single_allowed()) {
      RawNode list;
      list.items.push_back(std::move(*node_));
      *node_ = std::move(list);
    }
    if (!open(RawNode::Kind::list)) return false;
    std::size_t index = 0;
    const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), index);
    const std::size_t size = node_->items.size();
    if (status != std::errc{} || end != name.data() + name.size() || index > size) {
      problems_.add(mark_, fmt::format("no entry {} in a list: found index {}, expected 0 to {} ({} appends)",
                                       quoted(path), quoted(name), size, size));
      return false;
    }
    if (index == size) node_->items.emplace_back();
    enter(node_->items[index], key_->item());
    return true;
  }

  bool step_scalar(const std::string& path) {
    problems_.add(mark_, fmt::format("unknown key {}: '{}' is {}, which has no keys", quoted(path), path_,
                                     key_->type_text()));
    return false;
  }

  void enter(RawNode& node, const SchemaKey& key) {
    node_ = &node;
    key_ = &key;
  }

  Mark mark_;
  Problems& problems_;
  RawNode* node_;
  const SchemaKey* key_;
  const Section* section_ = nullptr;
  RawNode* section_node_ = nullptr;
  std::string path_;
};

RawNode parse_value(const SchemaKey& key, const std::string& text, const Mark& mark,
                    const std::string& where) {
  const bool plain =
      key.type() == KeyType::text || key.type() == KeyType::choice || key.type() == KeyType::duration;
  RawNode node;
  if (!plain || text.starts_with('\'') || text.starts_with('"')) {
    node = parse_yaml(text, mark.source, where);
  } else if (!is_null_text(text)) {
    node = raw_scalar(text, key.type() == KeyType::text);
  }
  set_marks(node, mark);
  return node;
}

}  // namespace

void expand_shorthand(const Section& section, RawNode& node) {
  const SchemaKey* selector = section.selector();
  if (!selector || node.kind != RawNode::Kind::scalar) return;
  RawNode map;
  map.kind = RawNode::Kind::map;
  map.mark = node.mark;
  map.members.push_back({selector->name(), node.mark, std::move(node)});
  node = std::move(map);
}

std::string selected_variant(const Section& section, const RawNode& node) {
  const SchemaKey* selector = section.selector();
  if (!selector) return {};
  if (const RawNode* written = node.find(selector->name())) return written->text;
  return selector->default_value() ? selector->default_value()->text : std::string();
}

std::vector<const SchemaKey*> active_keys(const Section& section, const RawNode& node) {
  std::vector<const SchemaKey*> keys;
  for (const SchemaKey& key : section.keys()) keys.push_back(&key);
  if (const Section::Variant* variant = section.find_variant(selected_variant(section, node))) {
    const auto further = active_keys(variant->section, node);
    keys.insert(keys.end(), further.begin(), further.end());
  }
  return keys;
}

void merge(const SchemaKey& key, RawNode& base, RawNode overlay) {
  if (key.type() == KeyType::section) {
    expand_shorthand(key.section(), base);
    expand_shorthand(key.section(), overlay);
    if (overlay.is_null() && !key.is_optional()) return;  // `train:` with nothing below changes nothing
  }
  const bool both_maps = base.kind == RawNode::Kind::map && overlay.kind == RawNode::Kind::map;
  if (key.type() == KeyType::section && both_maps) {
    base.mark = overlay.mark;
    merge_section(key.section(), base, std::move(overlay));
  } else {
    base = std::move(overlay);
  }
}

void apply_override(const Schema& schema, RawNode& root, const std::string& text, int source,
                    int first_override, const std::string& where, Problems& problems) {
  const Mark mark{source, 0, 0};
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems.add(mark, fmt::format("not an override: found {}, expected key.path=value", quoted(text)));
    return;
  }
  Walk walk(schema, root, mark, problems);
  for (std::size_t begin = 0; begin <= equals;) {
    const std::size_t end = std::min(text.find_first_of("./", begin), equals);
    if (!walk.step(text.substr(begin, end - begin))) return;
    begin = end + 1;
  }
  walk.assign(parse_value(walk.key(), text.substr(equals + 1), mark, where), first_override);
}

}  // namespace tessera::deck_detail
